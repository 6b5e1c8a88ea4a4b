module github.com/dragoman-mcp/dragoman/tools/screenshots

go 1.26
