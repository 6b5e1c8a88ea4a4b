// A client of the TypeScript SDK that signs in.
//
//   node signin.mjs FOLDER VERSION URL
//
// FOLDER has the packages of npm, VERSION is 1 or 2, and URL is a server over Streamable
// HTTP that wants a sign-in. It prints {"page": URL} when a person has to go there, and waits for
// the browser to come back. Then it calls the tool echo, refreshes its tokens, calls it again, and prints
// {"texts": [...], "pages": how many, "client": id}.
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, version, server] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(folder, "@modelcontextprotocol", file)));
const sdk =
  version === "1"
    ? {
        ...(await load("sdk/dist/esm/client/index.js")),
        ...(await load("sdk/dist/esm/client/streamableHttp.js")),
        ...(await load("sdk/dist/esm/client/auth.js")),
      }
    : await load("client/dist/index.mjs");
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

let arrived;
const back = new Promise((resolve) => (arrived = resolve));
const web = createServer((req, res) => {
  const at = new URL(req.url, "http://localhost");
  res.setHeader("connection", "close");
  res.setHeader("content-type", "text/html");
  res.end("<p id=done>You can close this page.</p>");
  if (at.pathname === "/callback") arrived(at.searchParams);
});
await new Promise((resolve) => web.listen(0, "127.0.0.1", resolve));
const redirect = `http://127.0.0.1:${web.address().port}/callback`;

// What the SDK has its owner keep.
const kept = {};
let pages = 0;
const provider = {
  redirectUrl: redirect,
  clientMetadata: {
    client_name: "TypeScript SDK", redirect_uris: [redirect], grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"], token_endpoint_auth_method: "none",
  },
  state: () => "state of the client",
  clientInformation: () => kept.client,
  saveClientInformation: (info) => (kept.client = info),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  redirectToAuthorization: (url) => {
    pages++;
    say({ page: url.href });
  },
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};

async function call() {
  const client = new sdk.Client({ name: "signs-in", version: "1" });
  const transport = new sdk.StreamableHTTPClientTransport(new URL(server), { authProvider: provider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof sdk.UnauthorizedError) && !(error.cause instanceof sdk.UnauthorizedError)) throw error;
    const answer = await back;
    if (answer.get("state") !== "state of the client" || !answer.get("iss")) throw new Error(`the browser comes back with ${answer}`);
    await transport.finishAuth(version === "1" ? answer.get("code") : answer);
    return call();
  }
  const result = await client.callTool({ name: "echo", arguments: { text: "hello" } });
  await client.close();
  return result.content[0].text;
}

const texts = [await call()];
const before = kept.tokens;
kept.tokens = { ...before, access_token: "spoiled" }; // so that it has to refresh
texts.push(await call());
if (kept.tokens.refresh_token === before.refresh_token || kept.tokens.access_token === before.access_token) throw new Error("the tokens are those from before");
say({ texts, pages, client: kept.client.client_id });
web.close();
