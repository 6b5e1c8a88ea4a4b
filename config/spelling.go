package config

import "time"

// A spelling is a key that hosts have for a server, beside those that are spelled as
// ours are.
type spelling struct {
	key  string
	as   string // what it is in our format; empty if it means nothing here
	doc  string // how it differs, or why it means nothing
	take func(h *spelled)
}

// Reasons why a key means nothing here.
const (
	approval = "who may call a tool without being asked is the client's business"
	signIn   = "signing in is not taken over: give the header itself"
	helper   = "no command is run to get headers: give the header itself"
	sandbox  = "there is no sandbox here: use user and limits, or name a sandbox as the command"
	display  = "it is about how the client shows, starts or uses the server"
)

// spellings returns the table, by key.
func spellings() map[string]spelling {
	all := map[string]spelling{}
	for _, s := range spellingTable() {
		all[s.key] = s
	}
	return all
}

func spellingTable() []spelling {
	table := []spelling{
		{"command", "command, args", "also a list, or a mapping with path, args and env", (*spelled).command},
		{"env", "env", "a null leaves a variable out", (*spelled).env},
		{"environment", "env", "", (*spelled).env},
		{"env_vars", "inherit", "", (*spelled).envVars},
		{"inheritParentEnv", "inherit", "true means all", (*spelled).inheritAll},
		{"headerToEnv", "passEnv", "", as("passEnv")},
		{"type", "transport", "", (*spelled).transport},
		{"transport", "transport", "", (*spelled).transport},
		{"transportType", "transport", "", (*spelled).transport},
		{"url", "url", "means HTTP+SSE in files of Gemini CLI", (*spelled).url},
		{"serverUrl", "url", "", as("url")},
		{"httpUrl", "url", "and transport http", (*spelled).httpURL},
		{"http_headers", "headers", "", (*spelled).headers},
		{"env_http_headers", "headers", "values are names of variables", (*spelled).envHeaders},
		{"bearer_token_env_var", "headers", "the header Authorization, from a variable", (*spelled).bearer},
		{"timeout", "timeout", "a number is in the host's unit", timeIn("timeout", 0)},
		{"requestTimeout", "timeout", "in milliseconds", timeIn("timeout", time.Millisecond)},
		{"requestTimeoutMs", "timeout", "in milliseconds", timeIn("timeout", time.Millisecond)},
		{"tool_timeout_sec", "timeout", "in seconds", timeIn("timeout", time.Second)},
		{"connectTimeout", "connectTimeout", "a number is in the host's unit", timeIn("connectTimeout", 0)},
		{"connectionTimeout", "connectTimeout", "in milliseconds", timeIn("connectTimeout", time.Millisecond)},
		{"initTimeout", "connectTimeout", "in milliseconds", timeIn("connectTimeout", time.Millisecond)},
		{"startup_timeout_sec", "connectTimeout", "in seconds", timeIn("connectTimeout", time.Second)},
		{"startup_timeout_ms", "connectTimeout", "in milliseconds", timeIn("connectTimeout", time.Millisecond)},
		{"retryInterval", "retry.min", "in milliseconds", timeIn("retry.min", time.Millisecond)},
		{"maxRestarts", "restart.max", "", (*spelled).maxRestarts},
		{"enabled", "disabled", "the opposite", (*spelled).enabled},
		{"tools", "tools.include", "if it is a list", (*spelled).tools},
		{"enabledTools", "tools.include", "", (*spelled).include},
		{"includeTools", "tools.include", "", (*spelled).include},
		{"enabled_tools", "tools.include", "", (*spelled).include},
		{"disabledTools", "tools.exclude", "", (*spelled).exclude},
		{"excludeTools", "tools.exclude", "", (*spelled).exclude},
		{"disabled_tools", "tools.exclude", "", (*spelled).exclude},
		{"toolDescriptionOverrides", "tools.describe", "", (*spelled).describe},
		{"protocolEra", "era", "", as("era")},
		{"protocolVersion", "era", "auto, legacy, modern or a revision", (*spelled).revision},
	}
	for why, keys := range map[string][]string{
		approval: {"autoApprove", "alwaysAllow", "trust"},
		signIn:   {"oauth", "auth", "scopes", "oauth_resource", "authProviderType", "targetAudience", "targetServiceAccount"},
		helper:   {"headersHelper"},
		sandbox:  {"sandboxEnabled", "sandbox"},
		display:  {"dev", "alwaysLoad", "gallery", "version", "description", "name", "icon", "tags", "source", "settings", "watchPaths", "roots", "metadata", "required", "supports_parallel_tool_calls"},
	} {
		for _, k := range keys {
			table = append(table, spelling{key: k, doc: why})
		}
	}
	return table
}
