// A client of version 2 of the TypeScript SDK.
//
//   node client2.mjs SDK REVISION URL
//   node client2.mjs SDK REVISION COMMAND [ARGUMENT...]
//
// SDK is the folder of @modelcontextprotocol/client. If REVISION is auto, the
// client finds out what the server speaks. A URL that ends in /sse means HTTP+SSE.
// It is driven as drive.mjs says.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ask, drive, say } from "./drive.mjs";

const [sdk, revision, command, ...args] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(sdk, "dist", file)));
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = await load("index.mjs");
const { StdioClientTransport } = await load("stdio.mjs");

const client = new Client(
  { name: "typescript-sdk", version: "2" },
  {
    capabilities: { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } },
    versionNegotiation: { mode: revision === "auto" ? "auto" : revision >= "2026" ? { pin: revision } : "legacy" },
  },
);
for (const method of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
  client.setRequestHandler(method, ask);
}
client.fallbackNotificationHandler = async (note) => say(note);
client.setNotificationHandler("notifications/progress", say);

const methods = {
  listen: async (params) => {
    await client.listen(params);
    return {};
  },
  setLoggingLevel: (params, options) => client.setLoggingLevel(params.level, options),
  ping: (_, options) => client.ping(options),
};

const HTTPTransport = command.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
const transport = /^http:/.test(command)
  ? new HTTPTransport(new URL(command))
  : new StdioClientTransport({ command, args, stderr: "inherit" });
await client.connect(transport);
await drive({ server: client.getServerVersion(), revision: client.getNegotiatedProtocolVersion() }, (method, params, options) => {
  const run = methods[method] ?? ((params, options) => client[method](params, options));
  const given = method.startsWith("list") && method !== "listen" ? undefined : params;
  return run(given, { ...options, cacheMode: "refresh" });
});
await transport.terminateSession?.();
await client.close();
