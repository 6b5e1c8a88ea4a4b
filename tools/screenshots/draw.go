package main

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The measures of a picture, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 19
	margin     = 16
	titleBar   = 30
)

// A look is how characters are shown.
type look struct {
	colour string // "" for that of plain text
	bold   bool
	dim    bool
}

// palette are the colours 0 to 7 and 8 to 15 of a terminal.
var palette = strings.Fields(`#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4
	#6e7681 #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #ffffff`)

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// draw returns a screen as an SVG.
func draw(screen string, columns int) string {
	lines := strings.Split(strings.TrimRight(screen, " \n"), "\n")
	if last := len(lines) - 1; last > 0 && strings.TrimSpace(escape.ReplaceAllString(lines[last], "")) == "$" {
		lines = lines[:last] // the prompt for what comes next
	}
	width := float64(columns)*cellWidth + 2*margin
	height := len(lines)*cellHeight + titleBar + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`+"\n")
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="16" r="6" fill="%s"/>`+"\n", margin+4+20*i, colour)
	}
	var l look // it continues from line to line
	for i, line := range lines {
		l = drawLine(&b, line, titleBar+(i+1)*cellHeight-5, l)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawLine draws one line, which begins with a look, and returns that at its end.
func drawLine(b *strings.Builder, line string, y int, l look) look {
	column := 0
	for line != "" {
		text, rest := line, ""
		codes := ""
		if at := escape.FindStringSubmatchIndex(line); at != nil {
			text, codes, rest = line[:at[0]], line[at[2]:at[3]], line[at[1]:]
			if codes == "" {
				codes = "0"
			}
		}
		drawText(b, text, column, y, l)
		column += utf8.RuneCountInString(text)
		if codes != "" {
			l = l.after(codes)
		}
		line = rest
	}
	return l
}

// drawText draws text of one look. It is told how wide it is, so that columns stay in line whatever font
// there is.
func drawText(b *strings.Builder, text string, column, y int, l look) {
	shown := strings.TrimLeft(text, " ")
	column += len(text) - len(shown)
	shown = strings.TrimRight(shown, " ")
	if shown == "" {
		return
	}
	colour := l.colour
	if colour == "" {
		colour = "#e6edf3"
	}
	style := ""
	if l.bold {
		style += ` font-weight="bold"`
	}
	if l.dim {
		style += ` opacity="0.6"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>`+"\n",
		margin+float64(column)*cellWidth, y, float64(utf8.RuneCountInString(shown))*cellWidth, colour, style, html.EscapeString(shown))
}

// after returns the look that an escape sequence sets.
func (l look) after(codes string) look {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		n, err := strconv.Atoi(list[i])
		switch {
		case err != nil:
		case n == 0:
			l = look{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.dim = true
		case n == 22:
			l.bold, l.dim = false, false
		case n == 39:
			l.colour = ""
		case n >= 30 && n <= 37:
			l.colour = palette[n-30]
		case n >= 90 && n <= 97:
			l.colour = palette[n-90+8]
		case n == 38 && i+2 < len(list) && list[i+1] == "5":
			if n, err := strconv.Atoi(list[i+2]); err == nil && n < len(palette) {
				l.colour = palette[n]
			}
			i += 2
		}
	}
	return l
}
