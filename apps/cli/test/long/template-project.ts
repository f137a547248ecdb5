// A project of `everturn init` as a new user gets it: the package is packed, installed in an empty folder, and creates
// the project with `npm create`'s program; its types are checked and its test is run. Its server runs as a process, and
// its page in Chromium.

import type { Template } from "../../src/commands/templates.ts";
import type { ChildProcess } from "node:child_process";

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { chromium } from "../../../../lib/test/edge/tools.ts";
import { writeCreatePackage } from "../../../../tools/package/create-package.ts";
import { Browser } from "./browser.ts";

const root = resolve(import.meta.dirname, "../../../..");

export type Project = {
  /** Runs a program in the folder of the project, and returns what it wrote. */
  readonly run: (program: string, ...argv: readonly string[]) => string;
  /** Starts the server on the port of the project, or the program that is given. Returns the address that it prints. */
  readonly serve: (argv?: readonly string[]) => Promise<string>;
  /** Ends the server. */
  readonly end: (signal: NodeJS.Signals) => Promise<void>;
  readonly browser: Browser;
  readonly log: (text: string) => void;
};

const everturn = "node_modules/everturn/bin/everturn.js";
const command = [everturn, "serve", "--config", "everturn.config.ts", "--port"];

/** How the server of a template is started, without the build before it. Its port is the last argument. */
const servers: { readonly [T in Template]: readonly string[] } = {
  app: command,
  react: command,
  hono: ["--import", "tsx", "server.ts"],
  next: ["node_modules/next/dist/bin/next", "start", "-H", "127.0.0.1", "-p"],
};

/** Creates the project of a template, and removes it and ends its processes after `use`. */
export async function withProject(template: Template, use: (project: Project) => Promise<void>): Promise<void> {
  if (process.env["EVERTURN_SKIP_BROWSER"] === "1") {
    console.log("skipped: EVERTURN_SKIP_BROWSER");
    return;
  }
  const startedAt = Date.now();
  const log = (text: string): void =>
    console.log(`${((Date.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${template}: ${text}`);
  const folder = mkdtempSync(join(tmpdir(), `template-${template}-`));
  const path = join(folder, "my-app");
  const port = await freePort();
  const environment = {
    PATH: process.env["PATH"] ?? "",
    HOME: folder,
    XDG_CONFIG_HOME: join(folder, "config"),
    PORT: `${port}`,
    EVERTURN_OFFLINE_PACE: "60",
    NEXT_TELEMETRY_DISABLED: "1",
    npm_config_audit: "false",
    npm_config_fund: "false",
  };
  const runIn = (cwd: string, program: string, ...argv: readonly string[]): string =>
    execFileSync(program, argv, {
      cwd,
      env: { ...process.env, ...environment, HOME: process.env["HOME"] ?? folder },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
  const packed = (source: string): string => {
    const lines = runIn(source, "npm", "pack", "--silent", "--pack-destination", folder).trim().split("\n");
    return join(folder, lines.at(-1) ?? "");
  };
  const running = new Set<ChildProcess>();
  let server: ChildProcess | null = null;
  let browser: Browser | null = null;
  try {
    const [library, creator] = [packed(join(root, "lib")), packed(writeCreatePackage(join(folder, "creator")))];
    writeFileSync(join(folder, "package.json"), "{}");
    runIn(folder, "npm", "install", "--silent", library, creator);
    runIn(folder, "npx", "create-everturn", "my-app", "--template", template, "--everturn", `file:${library}`);
    runIn(path, "npm", "install", "--silent");
    log("created, and its packages are installed");
    runIn(path, "npm", "run", "--silent", "check");
    assert.match(runIn(path, "npm", "test", "--silent"), /[#ℹ] pass 1\n[#ℹ] fail 0/);
    log("its types and its test are correct");
    const page = (browser = await Browser.start(chromium(), join(folder, "profile")));
    await use({
      browser: page,
      log,
      run: (program, ...argv) => runIn(path, program, ...argv),
      serve: async (argv = servers[template]) => {
        const own = argv === servers[template];
        // A program with Hono reads its port from the environment.
        const child = spawn(process.execPath, own && argv.at(-1) !== "server.ts" ? [...argv, `${port}`] : argv, {
          cwd: path,
          env: environment,
          stdio: ["ignore", "pipe", "inherit"],
        });
        running.add(child);
        if (own) server = child;
        return addressIn(child);
      },
      end: async (signal) => {
        if (server === null) return;
        const exited = once(server, "exit");
        server.kill(signal);
        await exited;
      },
    });
  } finally {
    await browser?.close();
    for (const child of running) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

/** The address that a server prints when it listens: of its page, or of itself. */
async function addressIn({ stdout }: ChildProcess): Promise<string> {
  assert.ok(stdout !== null);
  let text = "";
  // Not `for await`: it would close the pipe, and the server would fail when it writes again.
  return new Promise((resolveAddress, reject) => {
    stdout.on("data", (chunk) => {
      text += String(chunk);
      const address = /(?:The page is at|The studio is at|Local:) +(http:\S+)\s/.exec(text)?.[1];
      if (address !== undefined) resolveAddress(address);
    });
    stdout.once("end", () => reject(new Error(`the server wrote ${text}`)));
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}
