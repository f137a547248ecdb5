import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { checkTrusted, digestOf, distrustFolder, trustConfig, trustStorePath, UntrustedConfigError } from "./trust.ts";

let base = "";
let folder = "";
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "trust-")));
  folder = join(base, "project");
  mkdirSync(folder);
});
afterEach(() => rmSync(base, { recursive: true }));

const system = () => ({ environment: { XDG_CONFIG_HOME: join(base, "config") }, platform: process.platform, home: "" });
const write = (name: string, text: string): string => {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  return path;
};
const refusal = (path: string): UntrustedConfigError => {
  try {
    checkTrusted(path, system());
  } catch (error) {
    if (error instanceof UntrustedConfigError) return error;
    throw error;
  }
  throw new Error("the file is trusted");
};

describe("a configuration file is trusted", () => {
  it("once per folder and content: a change needs trust again, and so does another folder", () => {
    const path = write("everturn.config.mjs", "export default {};");
    expect(refusal(path).message).toMatch(/is not trusted.*everturn trust.*--config.*--no-config/);
    trustConfig(path, system());
    checkTrusted(path, system());
    writeFileSync(path, "export default { };");
    expect(refusal(path).changed).toEqual(["everturn.config.mjs"]);
    writeFileSync(path, "export default {};");
    checkTrusted(path, system());
    const moved = join(base, "moved");
    renameSync(folder, moved);
    expect(refusal(join(moved, "everturn.config.mjs")).changed).toEqual([]);
  });

  it("with the programs that it starts: a change of one needs trust again", () => {
    const path = write(
      "everturn.config.json",
      `{ "mcpServers": { "a": { "command": "python3", "args": ["server.py"] } } }`,
    );
    const program = write("server.py", "print(1)");
    trustConfig(path, system());
    checkTrusted(path, system());
    writeFileSync(program, "print(2)");
    expect(refusal(path).changed).toEqual(["server.py"]);
  });

  it("by any path of its folder", () => {
    const path = write("everturn.config.mjs", "");
    symlinkSync(folder, join(base, "link"));
    trustConfig(join(base, "link", "everturn.config.mjs"), system());
    checkTrusted(path, system());
  });

  it("until the trust of its folder is removed", () => {
    const path = write("everturn.config.json", "{}");
    trustConfig(path, system());
    expect([distrustFolder(folder, system()), distrustFolder(folder, system())]).toEqual([true, false]);
    expect(refusal(path).changed).toEqual([]);
  });
});

describe("the trust store", () => {
  it("is readable by the user only", () => {
    trustConfig(write("everturn.config.json", "{}"), system());
    const path = trustStorePath(system());
    expect(path).toBe(join(base, "config", "everturn", "trusted.json"));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(path, "..")).mode & 0o777).toBe(0o700);
  });

  it("is not used if other users can write it", () => {
    const path = write("everturn.config.json", "{}");
    trustConfig(path, system());
    chmodSync(trustStorePath(system()), 0o620);
    expect(() => checkTrusted(path, system())).toThrow(/other users can write the trust store .*chmod 600/);
  });

  it.each(["", "[]", "{"])("with the content %j is an error that names it", (text) => {
    const path = write("everturn.config.json", "{}");
    trustConfig(path, system());
    writeFileSync(trustStorePath(system()), text);
    expect(() => checkTrusted(path, system())).toThrow(/the trust store .*trusted\.json .*delete it/);
  });

  it("needs a home folder", () => {
    const path = write("everturn.config.json", "{}");
    expect(() => checkTrusted(path, { environment: {}, platform: "linux", home: "" })).toThrow(
      /set HOME, or use --config/,
    );
  });
});

describe("the digest covers", () => {
  it("the appearance of a file that was missing", () => {
    const path = write("everturn.config.mjs", `import("./later.mjs").catch(() => {})`);
    trustConfig(path, system());
    write("later.mjs", "");
    expect(refusal(path).changed).toEqual(["later.mjs"]);
  });

  it("names and contents", () => {
    expect(digestOf({ a: "1", b: "2" })).toBe(digestOf({ b: "2", a: "1" }));
    expect(digestOf({ a: "1" })).not.toBe(digestOf({ b: "1" }));
  });
});
