package adapt

// changesTools reports whether definitions of tools in there may have to be
// changed for the client.
func (r Route) changesTools(data []byte) bool {
	schemas, tasks := r.changesStructured(), !r.Client.HasCoreTasks()
	switch {
	case schemas && tasks:
		return contains(data, pieceSchema, pieceExecution)
	case schemas:
		return contains(data, pieceSchema)
	case tasks:
		return contains(data, pieceExecution)
	}
	return false
}

// tools returns a list of definitions of tools as the client's revision has
// them.
func (r Route) tools(list []byte) []byte {
	return mapped(list, func(tool []byte) []byte {
		if !r.changesTools(tool) {
			return tool
		}
		return edited(tool, func(name string, value []byte) []byte {
			switch name {
			case "execution":
				if !r.Client.HasCoreTasks() {
					return nil
				}
			case "outputSchema":
				if !r.Client.HasStructuredContent() {
					return nil
				}
				if r.wraps() {
					return objectSchema(value)
				}
			}
			return value
		}, nil)
	})
}
