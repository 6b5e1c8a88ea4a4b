// An authorization server, by the npm package oidc-provider, on 127.0.0.1.
//
//   node oidc.mjs FOLDER [SETTINGS]
//
// FOLDER has the packages of npm. SETTINGS is a JSON object, see settings below.
// Once it listens, it prints one line of JSON with its issuer. It ends on SIGINT.
//
// What was asked of it can be read at GET /test/counters. POST /test/settings
// changes the settings of what comes next, and POST /test/revoke takes all
// grants back, as an administrator would.
import { createHash, generateKeyPairSync } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const settings = {
  port: 0, // 0 for a free one
  dir: "", // where state is kept, for a restart; none if empty
  jwks: "", // file of the private keys; the first one signs
  interaction: "form", // a person uses the forms; or "auto" or "deny", which need no click
  account: "alice", // who signs in where nobody is asked
  format: "opaque", // of access tokens; or "jwt"
  accessTTL: 60, // in seconds, as are all
  refreshTTL: 3600,
  deviceTTL: 600,
  scopes: ["mcp:read", "mcp:write"], // of every resource
  resources: [], // that tokens may be for; all if empty
  registration: true, // dynamic
  rotate: true, // refresh tokens; one that is used twice ends the grant
  refresh: "offline", // only for offline_access, which counts only with prompt=consent; or "always"
  clients: [], // that are registered already, in the words of RFC 7591
  documents: {}, // client id metadata documents by URL; nothing is fetched
  fail: null, // {path, status, error, count}: so many requests of the path fail
  ...JSON.parse(process.argv[3] ?? "{}"),
};

const { Provider, errors } = await import(pathToFileURL(join(process.argv[2], "oidc-provider", "lib", "index.js")));

// Counters by kind, failures by kind and reason, and what the requests named.
const counters = { counts: {}, failures: {}, requests: [] };
const count = (kind, what = counters.counts) => (what[kind] = (what[kind] ?? 0) + 1);
const failed = (kind, error) => count(`${kind}: ${error.error_detail ?? error.error_description ?? error.message}`, counters.failures);

// A store in memory, of which each record is a file too.
const records = new Map();
const fileOf = (key) => join(settings.dir, createHash("sha256").update(key).digest("hex") + ".json");

function put(key, payload) {
  records.set(key, payload);
  if (settings.dir) {
    writeFileSync(fileOf(key) + ".new", JSON.stringify({ key, payload }), { mode: 0o600 });
    renameSync(fileOf(key) + ".new", fileOf(key));
  }
}

function drop(key) {
  if (records.delete(key) && settings.dir) {
    rmSync(fileOf(key), { force: true });
  }
}

if (settings.dir) {
  mkdirSync(settings.dir, { recursive: true });
  for (const name of readdirSync(settings.dir).filter((name) => name.endsWith(".json"))) {
    const { key, payload } = JSON.parse(readFileSync(join(settings.dir, name)));
    records.set(key, payload);
  }
}

function revoke(matches) {
  for (const [key, payload] of records) {
    if (matches(key, payload)) drop(key);
  }
}

class Adapter {
  constructor(model) {
    this.model = model;
  }
  async upsert(id, payload) {
    put(`${this.model}:${id}`, payload);
  }
  async find(id) {
    return records.get(`${this.model}:${id}`);
  }
  async #findBy(member, value) {
    for (const [key, payload] of records) {
      if (key.startsWith(`${this.model}:`) && payload[member] === value) return payload;
    }
  }
  async findByUid(uid) {
    return this.#findBy("uid", uid);
  }
  async findByUserCode(code) {
    return this.#findBy("userCode", code);
  }
  async consume(id) {
    const key = `${this.model}:${id}`;
    put(key, { ...records.get(key), consumed: Math.floor(Date.now() / 1000) });
  }
  async destroy(id) {
    drop(`${this.model}:${id}`);
  }
  async revokeByGrantId(grant) {
    revoke((_, { grantId }) => grantId === grant);
  }
}

// The keys, which are made when there are none yet.
function keys() {
  if (settings.jwks && existsSync(settings.jwks)) {
    return JSON.parse(readFileSync(settings.jwks));
  }
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const made = { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" }] };
  if (settings.jwks) {
    writeFileSync(settings.jwks, JSON.stringify(made), { mode: 0o600 });
  }
  return made;
}

// Pages without scripts, styles or anything else from elsewhere.
const safe = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
function page(ctx, title, body) {
  ctx.type = "html";
  ctx.body = `<!doctype html><meta charset="utf-8"><title>${title}</title><h1>${title}</h1>${body}`;
}
const button = (id, form) => `<button id="${id}" type="submit" form="${form}">Continue</button>`;

const configuration = {
  adapter: Adapter,
  clients: settings.clients,
  clockTolerance: 0, // or tokens would be good for longer than said
  cookies: { keys: ["interop"] },
  enableHttpPostMethods: false,
  jwks: keys(),
  scopes: ["openid", "offline_access", ...settings.scopes],
  findAccount: async (_, sub) => ({ accountId: sub, claims: async () => ({ sub }) }),
  pkce: { required: () => true },
  rotateRefreshToken: () => settings.rotate,
  issueRefreshToken: async (_, client, { scopes }) =>
    client.grantTypeAllowed("refresh_token") && (settings.refresh === "always" || scopes.has("offline_access")),
  expiresWithSession: async () => false,
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  fetch: async (url) => {
    const found = settings.documents[url];
    return new Response(JSON.stringify(found), { status: found ? 200 : 404, headers: { "content-type": "application/json" } });
  },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: Object.keys(settings.documents).length > 0, ack: "draft-02" },
    deviceFlow: {
      enabled: true,
      userCodeInputSource: async (ctx, form, _, error) =>
        page(ctx, "Device", `<p id="error">${safe(error ?? "")}</p>${form}${button("enter", "op.deviceInputForm")}`),
      userCodeConfirmSource: async (ctx, form, client, _, code) =>
        page(ctx, "Confirm", `<p>${safe(client.clientName ?? client.clientId)}: <code>${safe(code)}</code></p>${form}${button("confirm", "op.deviceConfirmForm")}`),
      successSource: async (ctx) => page(ctx, "Signed in", "<p id=done>You can close this page.</p>"),
    },
    introspection: { enabled: true, allowedPolicy: async () => true },
    registration: { enabled: settings.registration },
    resourceIndicators: {
      enabled: true,
      defaultResource: async (_, __, oneOf) => oneOf,
      useGrantedResource: async () => false,
      getResourceServerInfo: async (_, resource) => {
        if (settings.resources.length > 0 && !settings.resources.includes(resource)) throw new errors.InvalidTarget();
        return { scope: settings.scopes.join(" "), audience: resource, accessTokenTTL: settings.accessTTL, accessTokenFormat: settings.format };
      },
    },
    revocation: { enabled: true },
  },
  renderError: async (ctx, out) => page(ctx, "Error", `<p id="error">${safe(out.error)}: ${safe(out.error_description ?? "")}</p>`),
  ttl: {
    AccessToken: () => settings.accessTTL,
    ClientCredentials: () => settings.accessTTL,
    AuthorizationCode: 60,
    DeviceCode: () => settings.deviceTTL,
    Grant: 24 * 3600,
    IdToken: 3600,
    Interaction: 600,
    RefreshToken: () => settings.refreshTTL,
    Session: 24 * 3600,
  },
};

const web = createServer();
await new Promise((resolve) => web.listen(settings.port, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${web.address().port}`;
const provider = new Provider(issuer, configuration);

provider.on("authorization.success", () => count("authorizations"));
provider.on("authorization.error", (_, error) => failed("authorization", error));
provider.on("grant.success", (ctx) => count(ctx.oidc.params.grant_type));
provider.on("grant.error", (ctx, error) => {
  const kind = ctx.oidc.params?.grant_type ?? "token";
  failed(kind, error);
  if (error.error_detail === "refresh token already used") count("reuse");
});
provider.on("grant.revoked", () => count("grants revoked"));
provider.on("device_authorization.success", () => count("device codes"));
provider.on("device_authorization.error", (_, error) => failed("device code", error));
provider.on("registration_create.success", () => count("registrations"));
provider.on("registration_create.error", (_, error) => failed("registration", error));
provider.on("revocation.error", (_, error) => failed("revocation", error));
provider.on("introspection.error", (_, error) => failed("introspection", error));
provider.on("server_error", (_, error) => {
  failed("server", error);
  console.error(error);
});

// What is counted by its path, because the provider tells of it only when it fails.
const paths = {
  "/auth": "authorization requests",
  "/token/revocation": "revocations",
  "/token/introspection": "introspections",
  "/.well-known/oauth-authorization-server": "metadata",
  "/.well-known/openid-configuration": "metadata",
};

// The members of a request that are no secret.
const told = ["grant_type", "client_id", "resource", "scope", "redirect_uri", "prompt", "code_challenge_method", "token_type_hint"];

provider.use(async (ctx, next) => {
  if (ctx.path.startsWith("/test/")) return forTests(ctx);
  if (ctx.path.startsWith("/interaction/")) return interact(ctx);
  if (settings.fail?.path === ctx.path && settings.fail.count-- > 0) {
    count(`made to fail: ${ctx.path}`, counters.failures);
    ctx.status = settings.fail.status;
    ctx.body = { error: settings.fail.error ?? "temporarily_unavailable" };
    return;
  }
  await next();
  const ok = ctx.status < 400;
  if (ok && paths[ctx.path]) count(paths[ctx.path]);
  const params = { ...ctx.query, ...ctx.oidc?.body };
  params.client_id ??= ctx.oidc?.client?.clientId;
  counters.requests.push({
    method: ctx.method,
    path: ctx.path,
    status: ctx.status,
    ...Object.fromEntries(told.filter((name) => params[name] !== undefined).map((name) => [name, params[name]])),
  });
});

async function bodyOf(ctx) {
  let text = "";
  for await (const piece of ctx.req) text += piece;
  return text;
}

async function forTests(ctx) {
  switch (`${ctx.method} ${ctx.path}`) {
    case "GET /test/counters":
      ctx.body = counters;
      return;
    case "POST /test/settings":
      Object.assign(settings, JSON.parse(await bodyOf(ctx)));
      ctx.body = "";
      return;
    case "POST /test/revoke":
      revoke((key, { grantId }) => key.startsWith("Grant:") || grantId);
      ctx.body = "";
      return;
  }
  ctx.status = 404;
}

// interact signs in and consents: by forms, or without a click.
async function interact(ctx) {
  const details = await provider.interactionDetails(ctx.req, ctx.res);
  const { prompt, uid } = details;
  const finish = async (result, merge) => ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result, { mergeWithLastSubmission: merge }));
  const deny = () => finish({ error: "access_denied", error_description: "the user said no" }, false);
  if (settings.interaction === "deny") return deny();
  if (settings.interaction === "auto") {
    return prompt.name === "login" ? finish({ login: { accountId: settings.account } }, false) : finish(await consent(details), true);
  }
  if (ctx.method === "POST") {
    const form = new URLSearchParams(await bodyOf(ctx));
    if (form.get("deny")) return deny();
    if (prompt.name === "consent") return finish(await consent(details), true);
    if (form.get("password") === "secret") return finish({ login: { accountId: form.get("login") } }, false);
    ctx.status = 403;
  }
  const no = `<button id="deny" name="deny" value="yes" formnovalidate>No</button>`;
  const action = `<form method="post" action="/interaction/${uid}">`;
  if (prompt.name === "login") {
    page(ctx, "Sign in", `${action}<input id="login" name="login" required><input id="password" name="password" type="password" required><button id="sign-in">Sign in</button>${no}</form>`);
    return;
  }
  page(ctx, "Consent", `<p id="scope">${safe(details.params.scope ?? "")}</p>${action}<button id="allow">Allow</button>${no}</form>`);
}

// consent grants all that is asked for, beside what was granted before.
async function consent({ prompt: { details }, grantId, session, params }) {
  const grant = (grantId && (await provider.Grant.find(grantId))) || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (details.missingOIDCScope) grant.addOIDCScope(details.missingOIDCScope.join(" "));
  if (details.missingOIDCClaims) grant.addOIDCClaims(details.missingOIDCClaims);
  for (const [resource, scopes] of Object.entries(details.missingResourceScopes ?? {})) grant.addResourceScope(resource, scopes.join(" "));
  return { consent: { grantId: await grant.save() } };
}

web.on("request", provider.callback());
console.log(JSON.stringify({ issuer }));
process.once("SIGINT", () => {
  web.close();
  web.closeAllConnections();
});
