import type { GivenConfig } from "./config-file.ts";
import type { Environment, GivenFlags, SettingName } from "./settings.ts";

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { databaseName, SettingsError } from "./setting-readers.ts";
import { loadSettings, resolveSettings, settingNames } from "./settings.ts";
import { trustConfig } from "./trust.ts";
import { systemOf } from "./user-folders.ts";

const folder = mkdtempSync(join(tmpdir(), "settings-"));
afterAll(() => rmSync(folder, { recursive: true }));

type Sources = {
  readonly flags?: GivenFlags;
  readonly environment?: { readonly [name: string]: string };
  readonly config?: { readonly [name: string]: unknown };
  readonly platform?: NodeJS.Platform;
  readonly home?: string;
};

function resolved({ flags = {}, environment = {}, config, platform = "linux", home = "/home/ada" }: Sources) {
  const file: GivenConfig | null =
    config === undefined ? null : { path: "/etc/e/everturn.config.json", folder: "/etc/e", fields: config };
  return resolveSettings({
    flags,
    config: file,
    folder: "/project",
    system: { environment, platform, home },
  });
}

function refusal(sources: Sources): string {
  try {
    resolved(sources);
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
  return "no error was thrown";
}

describe("precedence is flag, environment variable, configuration file, default", () => {
  const token = "0123456789abcdef";
  type Row = readonly [
    name: SettingName,
    flag: string | readonly string[],
    variable: readonly [name: string, text: string],
    file: unknown,
    values: readonly [flag: unknown, variable: unknown, file: unknown, fallback: unknown],
  ];
  const rows: readonly Row[] = [
    ["engine", "a", ["EVERTURN_ENGINE", "b"], "c", ["a", "b", "c", "default"]],
    ["maxTurns", "1", ["EVERTURN_MAX_TURNS", "2"], 3, [1, 2, 3, 32]],
    ["pace", "1", ["EVERTURN_OFFLINE_PACE", "0"], 3, [1, 0, 3, 25]],
    ["host", "a", ["EVERTURN_HOST", "b"], "c", ["a", "b", "c", "127.0.0.1"]],
    ["port", "1", ["EVERTURN_PORT", "0"], 3, [1, 0, 3, 4242]],
    [
      "model",
      "openai:a",
      ["EVERTURN_MODEL", "openai:b"],
      "openai:c",
      ["openai:a", "openai:b", "openai:c", "offline:demo"],
    ],
    [
      "database",
      "a.db",
      ["EVERTURN_DATABASE", "b.db"],
      "c.db",
      ["/project/a.db", "/project/b.db", "/etc/e/c.db", "/home/ada/.local/share/everturn/everturn.db"],
    ],
    [
      "tools",
      ["a.mjs", "b.mjs"],
      ["EVERTURN_TOOLS", "c.mjs, /d.mjs"],
      ["e.mjs"],
      [["/project/a.mjs", "/project/b.mjs"], ["/project/c.mjs", "/d.mjs"], ["/etc/e/e.mjs"], []],
    ],
    ["static", "a", ["EVERTURN_STATIC", "/b"], "c", ["/project/a", "/b", "/etc/e/c", null]],
    ["studio", "off", ["EVERTURN_STUDIO", "off"], false, [false, false, false, true]],
    ["instructions", "A", ["EVERTURN_INSTRUCTIONS", "B, b"], "C", ["A", "B, b", "C", null]],
    ["whenBusy", "queue", ["EVERTURN_WHEN_BUSY", "interrupt"], "reject", ["queue", "interrupt", "reject", null]],
    [
      "limits",
      ["tenant.concurrency=2", "tenant.rate=60/m", "tenant:acme.concurrency=9", "engine:default.rate=5/30s"],
      ["EVERTURN_LIMITS", "key.concurrency=1, key:ann.rate=1/500ms"],
      ["engine:a.b.concurrency=4"],
      [
        {
          engines: { default: { rate: { turns: 5, perMs: 30_000 } } },
          tenants: { acme: { concurrency: 9 } },
          limitKeys: {},
          perTenant: { concurrency: 2, rate: { turns: 60, perMs: 60_000 } },
        },
        {
          engines: {},
          tenants: {},
          limitKeys: { ann: { rate: { turns: 1, perMs: 500 } } },
          perLimitKey: { concurrency: 1 },
        },
        { engines: { "a.b": { concurrency: 4 } }, tenants: {}, limitKeys: {} },
        null,
      ],
    ],
    [
      "tokens",
      [`acme:${token}`],
      ["EVERTURN_TOKENS", `${token},b:${token}1`],
      `${token}2`,
      [
        [{ tenant: "acme", token }],
        [
          { tenant: "", token },
          { tenant: "b", token: `${token}1` },
        ],
        [{ tenant: "", token: `${token}2` }],
        [],
      ],
    ],
    [
      "cors",
      ["https://a"],
      ["EVERTURN_CORS", "https://b"],
      ["https://c"],
      [["https://a"], ["https://b"], ["https://c"], []],
    ],
    [
      "trustedProxies",
      ["loopback"],
      ["EVERTURN_TRUSTED_PROXIES", "10.0.0.0/8,::1"],
      "10.0.0.1",
      [["loopback"], ["10.0.0.0/8", "::1"], ["10.0.0.1"], []],
    ],
    ["completions", "off", ["EVERTURN_COMPLETIONS", "on"], true, [false, true, true, false]],
    ["search", "off", ["EVERTURN_SEARCH", "on"], false, [false, true, false, true]],
    ["requestLog", "off", ["EVERTURN_REQUEST_LOG", "On"], false, [false, true, false, true]],
    ["drive", "restate", ["EVERTURN_DRIVE", "here"], "restate", ["restate", "here", "restate", "here"]],
    [
      "restateIngress",
      "http://a:8080/",
      ["EVERTURN_RESTATE_INGRESS", "http://b"],
      "https://c",
      ["http://a:8080", "http://b", "https://c", "http://127.0.0.1:8080"],
    ],
    [
      "restateListen",
      "0.0.0.0:9081",
      ["EVERTURN_RESTATE_LISTEN", "[::1]:0"],
      9082,
      [
        { host: "0.0.0.0", port: 9081 },
        { host: "::1", port: 0 },
        { host: "127.0.0.1", port: 9082 },
        { host: "127.0.0.1", port: 9080 },
      ],
    ],
    [
      "restateAdmin",
      "http://a",
      ["EVERTURN_RESTATE_ADMIN", "http://b"],
      "http://c",
      ["http://a", "http://b", "http://c", null],
    ],
    [
      "restateUri",
      "http://a",
      ["EVERTURN_RESTATE_URI", "http://b"],
      "http://c",
      ["http://a", "http://b", "http://c", null],
    ],
    [
      "restateKeys",
      ["publickeyv1_a"],
      ["EVERTURN_RESTATE_KEYS", "publickeyv1_b,publickeyv1_c"],
      "publickeyv1_d",
      [["publickeyv1_a"], ["publickeyv1_b", "publickeyv1_c"], ["publickeyv1_d"], []],
    ],
  ];
  it.each(rows)("%s", (name, flag, [variable, text], file, values) => {
    const environment = { [variable]: text };
    const config = { [name]: file };
    const found = [
      resolved({ flags: { [name]: flag }, environment, config })[name],
      resolved({ environment, config })[name],
      resolved({ config })[name],
      resolved({})[name],
    ];
    expect(found.map(({ value }) => value)).toEqual(values);
    expect(found.map(({ source }) => source.from)).toEqual(["flag", "environment", "config", "default"]);
    expect(found[1]?.source.name).toBe(variable);
    expect(found[2]?.source.name).toBe("/etc/e/everturn.config.json");
  });

  it("covers every setting except base URLs, which have separate variables", () => {
    expect(rows.map(([name]) => name).toSorted()).toEqual(
      settingNames.filter((name) => name !== "baseUrls").toSorted(),
    );
  });
});

describe("the default", () => {
  it("of the model is that of the first provider whose API key is set, with the variable as its reason", () => {
    const { model } = resolved({ environment: { GEMINI_API_KEY: "k", OPENAI_API_KEY: "k" } });
    expect(model).toEqual({ value: "openai:gpt-6.1-sol", source: { from: "default", name: "OPENAI_API_KEY is set" } });
  });

  it("is used if the environment variable is empty", () => {
    expect(resolved({ environment: { EVERTURN_MODEL: " ", OPENAI_API_KEY: "" } }).model.value).toBe("offline:demo");
  });

  it.each([
    ["linux", {}, "/home/ada/.local/share/everturn/everturn.db"],
    ["linux", { XDG_DATA_HOME: "/data" }, "/data/everturn/everturn.db"],
    ["darwin", {}, "/home/ada/Library/Application Support/everturn/everturn.db"],
    ["win32", { LOCALAPPDATA: "/local" }, "/local/everturn/everturn.db"],
  ] as const)("of the database is in the data folder of %s with %j", (platform, environment, path) => {
    expect(resolved({ platform, environment }).database.value).toBe(path);
  });
});

describe("an invalid value is rejected with its source and what was expected", () => {
  it.each<readonly [Sources, RegExp]>([
    [{ flags: { port: "x" } }, /^--port has to be a port, .* not "x"$/],
    [{ environment: { EVERTURN_PORT: "70000" } }, /^EVERTURN_PORT has to be a port/],
    [{ config: { port: "80.5" } }, /^\/etc\/e\/everturn\.config\.json: port has to be a port/],
    [{ flags: { drive: "there" } }, /^--drive has to be here or restate, not "there"$/],
    [{ flags: { restateIngress: "localhost:8080" } }, /^--restate-ingress has to be a URL that begins with http/],
    [{ flags: { restateListen: "localhost" } }, /^--restate-listen has to be a port/],
    [{ flags: { requestLog: "maybe" } }, /^--request-log has to be on or off, not "maybe"$/],
    [{ config: { model: 7 } }, /model has to be text, not 7$/],
    [{ config: { tools: [1] } }, /tools has to be a path, a tool, or a list of them, not \[1\]$/],
    [{ config: { baseUrls: { openai: "ftp://x" } } }, /baseUrls\.openai has to be a URL/],
    [{ config: { baseUrls: "http://x" } }, /baseUrls has to be an object of base URLs/],
    ...[
      "engine.concurrency=1",
      "tenant.concurrency=0",
      "tenant.rate=5",
      "tenant.concurrency=5/1m",
      "user.rate=1/s",
    ].map(
      (limit) =>
        [{ flags: { limits: [limit] } }, /^--limit has to be SCOPE\.concurrency=N or SCOPE\.rate=N\/PERIOD/] as const,
    ),
    [{ flags: { whenBusy: "later" } }, /^--when-busy has to be one of steer, queue, interrupt, reject, not "later"$/],
    [{ flags: { maxTurns: "0" } }, /^--max-turns has to be a whole number of 1 or more/],
    [
      { flags: { instructions: "@nowhere.md" } },
      /^--instructions: cannot read the instructions in \/project\/nowhere\.md$/,
    ],
  ])("%j", (sources, expected) => {
    expect(refusal(sources)).toMatch(expected);
  });

  it("a token that is too short is not shown", () => {
    expect(refusal({ flags: { tokens: ["hunter2"] } })).toMatch(/^--token: a token has to have 16 characters or more/);
    expect(refusal({ flags: { tokens: ["hunter2"] } })).not.toContain("hunter2");
  });

  it.each([
    [{ tokens: { acme: "hunter2-hunter2-hunter2" } }],
    [{ tokens: [{ token: "hunter2-hunter2-hunter2" }] }],
    [{ baseUrls: "http://ada:hunter2@example.com" }],
  ])("a value that may contain a secret is not shown: %j", (config) => {
    const message = refusal({ config });
    expect(message).toMatch(/^\/etc\/e\/everturn\.config\.json: (?:tokens|baseUrls)/);
    expect(message).not.toContain("hunter2");
  });

  it("a value that JSON cannot represent is shown by its type", () => {
    const circle: unknown[] = [];
    circle.push(circle);
    expect(refusal({ config: { model: circle } })).toMatch(/: model has to be text, not a list$/);
    expect(refusal({ config: { maxTurns: 10n } })).toMatch(/: maxTurns has to be a whole number .*, not a bigint$/);
  });

  it.each(["mysql://user:secret@host/db", "postgres:/user:secret@host/db", "postgresql+x://user:secret@host/db"])(
    "the database %s is refused without its password",
    (value) => {
      const resolve = () => resolved({ flags: { database: value } });
      expect(resolve).toThrow(/^--database has to be the path of a SQLite file or a URL that begins with postgres:/);
      expect(resolve).not.toThrow("secret");
    },
  );

  it.each([
    ["POSTGRES://user:secret@host/db", "postgres://host/db"],
    ["postgres://user:12/secret@host/db", "postgres://…"],
    ["postgres://user:12#secret@host/db", "postgres://…"],
    ["postgres://user:12?secret@host/db", "postgres://…"],
    ["postgres://host/db?user=user@server", "postgres://host/db"],
  ])("the database %s is named %s", (value, name) => {
    expect(databaseName(resolved({ flags: { database: value } }).database.value)).toBe(name);
  });

  it("a missing home folder is an error only if the database would be in it", () => {
    expect(refusal({ home: "" })).toMatch(/no home folder .*--database/);
    expect(resolved({ home: "", flags: { database: "a.db" } }).database.value).toBe("/project/a.db");
  });
});

describe("the configuration file", () => {
  const load = (config?: string, environment: Environment = {}) =>
    loadSettings({ folder, environment, ...(config === undefined ? {} : { config }) });
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

  it("is found in the working directory, and its paths are relative to its folder", async () => {
    write("everturn.config.mjs", `export default { model: "openai:m", tools: "t.mjs", instructions: "@hello.md" };`);
    write("hello.md", "Be kind.\n");
    const environment = { XDG_CONFIG_HOME: join(folder, "config") };
    trustConfig(join(folder, "everturn.config.mjs"), systemOf(environment));
    const { model, tools, instructions, configFile } = await load(undefined, environment);
    expect([model.value, tools.value, instructions.value]).toEqual(["openai:m", [join(folder, "t.mjs")], "Be kind."]);
    expect(configFile).toBe(join(folder, "everturn.config.mjs"));
  });

  it("is chosen by --config before EVERTURN_CONFIG", async () => {
    write("one.json", `{ "model": "openai:one" }`);
    write("two.json", `{ "model": "openai:two", "$schema": "x" }`);
    const environment = { EVERTURN_CONFIG: "one.json" };
    expect((await load(undefined, environment)).model.value).toBe("openai:one");
    expect((await load("two.json", environment)).model.value).toBe("openai:two");
  });

  it("may begin with a byte order mark", async () => {
    write("marked.json", `\uFEFF{ "model": "openai:m" }`);
    expect((await load("marked.json")).model.value).toBe("openai:m");
  });

  it("with an unknown setting is rejected with the list of settings", async () => {
    write("typo.json", `{ "modle": "x" }`);
    await expect(load("typo.json")).rejects.toThrow(
      /typo\.json: unknown setting modle; the settings are model, database, engine, tools/,
    );
  });

  it.each([
    ["gone.json", null, /the configuration file .*gone\.json does not exist/],
    ["broken.json", "{", /broken\.json is not JSON: /],
    ["list.json", "[]", /list\.json has to contain an object with settings: model/],
    ["named.mjs", "export const model = 1;", /named\.mjs has no default export/],
    ["quoted.json", `{ "tokens": hunter2 }`, /quoted\.json is not JSON: Unexpected token 'h'$/],
    [
      "getter.mjs",
      "export default { get model() { throw new Error('no luck'); } };",
      /getter\.mjs cannot be read: no luck/,
    ],
    [
      "odd.mjs",
      "throw { toString() { throw 1; } };",
      /odd\.mjs cannot be imported: a value that cannot be converted to text/,
    ],
    ["throws.mjs", "throw new Error('no luck');", /throws\.mjs cannot be imported: no luck/],
  ])("%s is rejected with its path", async (name, text, expected) => {
    if (text !== null) write(name, text);
    await expect(load(name)).rejects.toThrow(expected);
  });

  it("is ambiguous if a folder has two, and is rejected", async () => {
    write("everturn.config.json", "{}");
    await expect(load()).rejects.toThrow(/several configuration files: .*--config FILE/);
  });
});
