// A server of the npm package fastmcp over Streamable HTTP, which asks on the stream of
// the session and not on that of a call.
//
//   node fastmcp.mjs FOLDER PORT
//
// FOLDER has the packages.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, port] = process.argv.slice(2);
const load = (...file) => import(pathToFileURL(join(folder, ...file)));
const { FastMCP } = await load("fastmcp", "dist", "FastMCP.js");
const { z } = await load("zod", "index.js");

const server = new FastMCP({ name: "fastmcp-npm", version: "1.0.0" });
server.addTool({
  name: "ask",
  parameters: z.object({ text: z.string() }),
  execute: async ({ text }, { elicit }) => {
    const properties = { answer: { type: "string", default: `the answer to ${text}` } };
    const answer = await elicit({
      message: `What do you say to ${text}?`,
      requestedSchema: { type: "object", properties, required: ["answer"] },
    });
    return `${text}: ${answer.action} ${answer.content?.answer}`;
  },
});
await server.start({ transportType: "httpStream", httpStream: { port: Number(port), host: "127.0.0.1" } });
console.error("ready");
process.once("SIGINT", () => process.exit());
