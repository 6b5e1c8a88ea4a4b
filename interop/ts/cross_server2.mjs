// A server of version 2 of the TypeScript SDK that speaks the modern era alone, or over
// Streamable HTTP as the SDK does it by default: both eras, without legacy sessions.
//
//   node cross_server2.mjs FOLDER [http|both]
//
// FOLDER has the packages of @modelcontextprotocol.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { capabilities, handlers, listen } from "./cross_fixture.mjs";

const [folder, transport] = process.argv.slice(2);
const load = (name, file = "index") => import(pathToFileURL(join(folder, name, "dist", `${file}.mjs`)));
const { Server, createMcpHandler, inputRequired } = await load("server");
const { serveStdio } = await load("server", "stdio");
const { toNodeHandler } = await load("node");

// Thrown where a client has to be asked first.
class Question {
  constructor(method, params) {
    this.request = { method, params };
  }
}

let handler;

function build() {
  const server = new Server({ name: "cross", version: "typescript 2" }, { capabilities });
  for (const [method, handle] of Object.entries(handlers)) {
    server.setRequestHandler(method, async ({ params }, { mcpReq }) => {
      const call = {
        signal: mcpReq.signal,
        progressToken: mcpReq._meta?.progressToken,
        notify: (method, params) =>
          method === "notifications/message" ? mcpReq.log(params.level, params.data) : mcpReq.notify({ method, params }),
        ask: async (method, params) => {
          const answer = mcpReq.inputResponses?.q;
          if (answer === undefined) {
            throw new Question(method, params);
          }
          return answer;
        },
        changed: () => (handler ? handler.notify.toolsChanged() : server.sendToolListChanged()),
        touched: (uri) => (handler ? handler.notify.resourceUpdated(uri) : server.sendResourceUpdated({ uri })),
      };
      try {
        return await handle(params, call);
      } catch (error) {
        if (error instanceof Question) {
          return inputRequired({ inputRequests: { q: error.request }, requestState: "asked" });
        }
        throw error;
      }
    });
  }
  return server;
}

if (transport === "stdio") {
  serveStdio(build, { legacy: "reject", onerror: (error) => console.error(error.message) });
} else {
  handler = createMcpHandler(build, transport === "both" ? {} : { legacy: "reject" });
  listen(toNodeHandler(handler), () => handler.close());
}
