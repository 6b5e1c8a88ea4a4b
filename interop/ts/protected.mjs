// A server of the TypeScript SDK over Streamable HTTP that wants an access token,
// on 127.0.0.1.
//
//   node protected.mjs FOLDER SETTINGS
//
// FOLDER has the packages of npm. SETTINGS is a JSON object, see settings below.
// Once it listens, it prints one line of JSON with its URL. It ends on SIGINT.
//
// Its tool whoami says whose token it was and what the token allows. Its tool
// write needs the scope mcp:write besides mcp:read. What it was asked can be read
// at GET /test/counters.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, given] = process.argv.slice(2);
const settings = {
  issuer: "", // of the tokens
  client: "", // who asks the issuer about tokens that are not signed
  secret: "",
  sdk: 1, // version of the SDK; 2 is of both eras, and of the legacy one without sessions
  port: 0, // 0 for a free one
  path: "/mcp",
  read: "mcp:read", // the scope that all needs
  ...JSON.parse(given),
};

const load = (...file) => import(pathToFileURL(join(folder, ...file)));
const sdk = (...file) => load("@modelcontextprotocol", "sdk", "dist", "esm", ...file);
const { requireBearerAuth } = await sdk("server", "auth", "middleware", "bearerAuth.js");
const { mcpAuthMetadataRouter, getOAuthProtectedResourceMetadataUrl } = await sdk("server", "auth", "router.js");
const { InvalidTokenError } = await sdk("server", "auth", "errors.js");
const { createMcpExpressApp } = await sdk("server", "express.js");

const counters = { counts: {}, requests: [] };
const count = (kind) => (counters.counts[kind] = (counters.counts[kind] ?? 0) + 1);

// A verifier reads a token: by the issuer's keys if it is signed, or else by
// asking the issuer.
const metadata = await (await fetch(`${settings.issuer}/.well-known/openid-configuration`)).json();
const { createRemoteJWKSet, jwtVerify } = await load("jose", "dist", "webapi", "index.js");
const keys = createRemoteJWKSet(new URL(metadata.jwks_uri), { cooldownDuration: 0 });

async function introspect(token) {
  const basic = Buffer.from(`${settings.client}:${settings.secret}`).toString("base64");
  const response = await fetch(metadata.introspection_endpoint, {
    method: "POST",
    headers: { Authorization: `Basic ${basic}` },
    body: new URLSearchParams({ token }),
  });
  if (!response.ok) throw new Error(`introspection: status ${response.status}`);
  const claims = await response.json();
  if (!claims.active) throw new InvalidTokenError("the token is not active");
  return claims;
}

async function verify(token) {
  const options = { issuer: settings.issuer, clockTolerance: 0 };
  const invalid = ({ code }) => Promise.reject(new InvalidTokenError(code)); // a message would be put between quotes as it is
  return (await jwtVerify(token, keys, options).catch(invalid)).payload;
}

const verifier = {
  async verifyAccessToken(token) {
    const claims = await (token.split(".").length === 3 ? verify(token) : introspect(token));
    return {
      token,
      clientId: claims.client_id,
      scopes: (claims.scope ?? "").split(" ").filter(Boolean),
      expiresAt: claims.exp,
      resource: URL.canParse(claims.aud) ? new URL(claims.aud) : undefined,
      extra: { sub: claims.sub },
    };
  },
};

const text = (text) => ({ content: [{ type: "text", text }] });
const whoami = ({ clientId, scopes, extra }) => text(JSON.stringify({ sub: extra.sub ?? clientId, client: clientId, scopes }));

// serve1 is a handler with sessions, by version 1 of the SDK.
async function serve1() {
  const { McpServer } = await sdk("server", "mcp.js");
  const { StreamableHTTPServerTransport } = await sdk("server", "streamableHttp.js");
  const sessions = new Map();
  return async (request, response) => {
    const id = request.headers["mcp-session-id"];
    let session = sessions.get(id);
    if (!session) {
      if (id) return response.sendStatus(404);
      session = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, session) });
      const server = new McpServer({ name: "protected", version: "1" });
      server.registerTool("whoami", {}, async ({ authInfo }) => whoami(authInfo));
      server.registerTool("write", {}, async () => text("written"));
      await server.connect(session);
    }
    await session.handleRequest(request, response, request.body);
  };
}

// serve2 is a handler for both eras, by version 2 of the SDK.
async function serve2() {
  const { McpServer, createMcpHandler } = await load("@modelcontextprotocol", "server", "dist", "index.mjs");
  const { toNodeHandler } = await load("@modelcontextprotocol", "node", "dist", "index.mjs");
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: "protected", version: "2" });
    server.registerTool("whoami", {}, async ({ http }) => whoami(http.authInfo));
    server.registerTool("write", {}, async () => text("written"));
    return server;
  });
  const serve = toNodeHandler(handler);
  return (request, response) => serve(request, response, request.body);
}

const app = createMcpExpressApp();
const web = await new Promise((resolve) => {
  const listening = app.listen(settings.port, "127.0.0.1", () => resolve(listening));
});
const url = new URL(`http://127.0.0.1:${web.address().port}${settings.path}`);
const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(url);
const guard = (...requiredScopes) => requireBearerAuth({ verifier, requiredScopes, resourceMetadataUrl, expectedResource: url });
const mayRead = guard(settings.read);
const mayWrite = guard("mcp:write");

app.get("/test/counters", (_, response) => response.json(counters));
app.use((request, response, next) => {
  const { path } = request; // which is another one further in
  response.on("close", () => {
    const { method, params } = request.body ?? {};
    counters.requests.push({ http: request.method, path, status: response.statusCode, method, name: params?.name, sub: request.auth?.extra.sub });
    if (path !== settings.path) return;
    if (response.statusCode === 401) count(request.headers.authorization ? "invalid token" : "no token");
    else if (response.statusCode === 403) count("insufficient scope");
    else count("valid token");
  });
  next();
});
app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: url, scopesSupported: [settings.read, "mcp:write"], resourceName: "protected" }));
app.use(settings.path, mayRead, (request, response, next) => {
  const writes = request.body?.method === "tools/call" && request.body.params?.name === "write";
  return writes ? mayWrite(request, response, next) : next();
});
app.all(settings.path, await (settings.sdk === 2 ? serve2() : serve1()));

console.log(JSON.stringify({ url: url.href }));
process.once("SIGINT", () => {
  web.close();
  web.closeAllConnections();
});
