// A server of tools over plain HTTP on a free port, by node's own HTTP.
//
//   node callserver.mjs
//
// Its tools: echo; parts, whose answer is an event stream in many small pieces
// that must be put together; fail, which is an error with status 422; crash,
// which is status 500 without one; break, whose stream ends too early.
import { createServer } from "node:http";

const content = (text) => ({ content: [{ type: "text", text }] });

const web = createServer(async (request, response) => {
  const json = (status, value) => {
    response.writeHead(status, { "Content-Type": "application/json; charset=utf-8" });
    response.end(JSON.stringify(value));
  };
  if (request.method === "GET") {
    return json(200, { tools: [{ name: "echo", inputSchema: { type: "object" } }] });
  }
  const pieces = [];
  for await (const piece of request) {
    pieces.push(piece);
  }
  const { id, params } = JSON.parse(Buffer.concat(pieces));
  const reply = (body) => ({ jsonrpc: "2.0", id, ...body });
  switch (params.name) {
    case "echo":
      return json(200, reply({ result: content(params.arguments.text) }));
    case "fail":
      return json(422, reply({ error: { code: 1234, message: "as asked", data: { reason: "because" } } }));
    case "crash":
      response.writeHead(500, { "Content-Type": "text/html" });
      return response.end("<h1>crashed</h1>");
  }
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const event = (name, data) => `event: ${name}\r\ndata: ${JSON.stringify(data)}\r\n\r\n`;
  let text = ": begin\r\n\r\n" + event("result", content("öne")) + event("other", {}) + event("result", content("two"));
  if (params.name === "parts") {
    text += event("complete", reply({ result: { content: [] } }));
  }
  const bytes = Buffer.from(text);
  for (let i = 0; i < bytes.length; i += 3) {
    response.write(bytes.subarray(i, i + 3));
    await new Promise(setImmediate);
  }
  response.end();
});
web.listen(0, "127.0.0.1", () => console.error(`ready: http://127.0.0.1:${web.address().port}`));
process.once("SIGINT", () => {
  web.close();
  web.closeAllConnections();
});
