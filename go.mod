module github.com/dragoman-mcp/dragoman

go 1.26
