// A small server of version 2 of the TypeScript SDK over Streamable HTTP on a
// free port. In the legacy era it has no sessions.
//
//   node server2.mjs FOLDER
//
// FOLDER has the packages of @modelcontextprotocol.
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(join(process.argv[2], name, "dist", "index.mjs")));
const { McpServer, createMcpHandler, fromJsonSchema, inputRequired } = await load("server");
const { toNodeHandler } = await load("node");

const object = (properties) => fromJsonSchema({ type: "object", properties, required: Object.keys(properties) });
const text = (text) => ({ content: [{ type: "text", text }] });

function build({ era }) {
  const server = new McpServer({ name: "typescript-sdk", version: "2" });
  server.registerTool("echo", { inputSchema: object({ text: { type: "string" } }) }, async (args) => text(args.text));
  const sum = object({ sum: { type: "number" } });
  server.registerTool("add", { inputSchema: object({ a: { type: "number" }, b: { type: "number" } }), outputSchema: sum }, async ({ a, b }) => ({
    ...text(String(a + b)),
    structuredContent: { sum: a + b },
  }));
  server.registerTool("fail", {}, async () => {
    throw new Error("as asked");
  });
  server.registerTool("progress", {}, async ({ mcpReq }) => {
    for (let progress = 1; progress <= 3; progress++) {
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken: mcpReq._meta.progressToken, progress, total: 3 } });
    }
    return text("three times");
  });
  if (era === "modern") {
    server.registerTool("change", {}, async () => {
      handler.notify.toolsChanged();
      return text("changed");
    });
    server.registerTool("ask", {}, async ({ mcpReq }) => {
      const who = mcpReq.inputResponses?.who;
      if (who) {
        return text(`Hello, ${who.content.name}!`);
      }
      const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
      return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: "Who are you?", requestedSchema }) } });
    });
  }
  server.registerResource("text", "test://text", {}, async (uri) => ({ contents: [{ uri: uri.href, text: "some text" }] }));
  server.registerPrompt("greet", { argsSchema: object({ name: { type: "string" } }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  return server;
}

const handler = createMcpHandler(build);
const web = createServer(toNodeHandler(handler));
web.listen(0, "127.0.0.1", () => console.error(`ready: http://127.0.0.1:${web.address().port}`));
process.once("SIGINT", () => {
  handler.close();
  web.close();
  web.closeAllConnections();
});
