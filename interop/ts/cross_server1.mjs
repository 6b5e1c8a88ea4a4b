// A server of version 1 of the TypeScript SDK, which is of the legacy era.
//
//   node cross_server1.mjs FOLDER [http]
//
// FOLDER has the packages of @modelcontextprotocol.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { capabilities, handlers, listen } from "./cross_fixture.mjs";

const [folder, transport] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(folder, "sdk", "dist", "esm", file)));
const { Server } = await load("server/index.js");
const { StdioServerTransport } = await load("server/stdio.js");
const { StreamableHTTPServerTransport } = await load("server/streamableHttp.js");
const types = await load("types.js");

const schemas = Object.values(types).filter((s) => s?.shape?.method && s.shape.params !== undefined);
const schemaOf = (method) => schemas.find((s) => (s.shape.method.value ?? s.shape.method._def?.value) === method);
const answers = {
  "sampling/createMessage": types.CreateMessageResultSchema,
  "elicitation/create": types.ElicitResultSchema,
  "roots/list": types.ListRootsResultSchema,
};

function build() {
  const server = new Server({ name: "cross", version: "typescript 1" }, { capabilities });
  const watched = new Set();
  for (const [method, handle] of Object.entries(handlers)) {
    server.setRequestHandler(schemaOf(method), (request, extra) =>
      handle(request.params, {
        signal: extra.signal,
        progressToken: extra._meta?.progressToken,
        notify: (method, params) => extra.sendNotification({ method, params }),
        ask: (method, params) => extra.sendRequest({ method, params }, answers[method]),
        changed: () => server.sendToolListChanged(),
        touched: async (uri) => watched.has(uri) && (await server.sendResourceUpdated({ uri })),
      }),
    );
  }
  server.setRequestHandler(types.SubscribeRequestSchema, ({ params }) => (watched.add(params.uri), {}));
  server.setRequestHandler(types.UnsubscribeRequestSchema, ({ params }) => (watched.delete(params.uri), {}));
  return server;
}

if (transport !== "http") {
  await build().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  listen(async (request, response) => {
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (!session) {
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, session),
      });
      await build().connect(session);
    }
    await session.handleRequest(request, response);
  });
}
