module github.com/dragoman-mcp/dragoman/tools/site

go 1.26

require github.com/yuin/goldmark v1.8.7
