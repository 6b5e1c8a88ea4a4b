package httpserver

// Max returns how many requests are served at once.
func (d *Door) Max() int { return d.max }
