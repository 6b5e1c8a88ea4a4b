package httpserver

// Max returns how many requests are served at once.
func (d *Base) Max() int { return d.max }
