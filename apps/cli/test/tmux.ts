// A real terminal for the tests: tmux, on a socket of its own, so that nobody else's is touched and all of it can be ended.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const tsx = import.meta.resolve("tsx");

export const hasTmux: boolean = process.platform !== "win32" && spawnSync("tmux", ["-V"]).status === 0;

/** How long anything may take that is waited for. */
const patienceMs = 15_000;
const lookEveryMs = 25;

export type PaneOptions = {
  readonly folder: string;
  readonly width?: number;
  readonly height?: number;
  readonly environment?: { readonly [name: string]: string };
};

export class Tmux {
  readonly #folder = mkdtempSync(join(tmpdir(), "tmux-"));
  readonly #socket = join(this.#folder, "socket");
  #count = 0;

  /** Opens a terminal and runs the command in it; its exit code is said when it ends, and the terminal stays. */
  open(argv: readonly string[], { folder, width = 80, height = 24, environment = {} }: PaneOptions): Pane {
    this.#count += 1;
    const name = `pane${this.#count}`;
    const own = { HOME: folder, XDG_DATA_HOME: folder, LC_ALL: "C.UTF-8", PATH: process.env["PATH"] ?? "" };
    const variables = Object.entries({ ...own, ...environment }).map(([key, value]) => `${key}=${value}`);
    const command = [process.execPath, "--import", tsx, "--conditions=source", main, ...argv].map(quoted).join(" ");
    const shell = `${command}; echo "exit code $?"; exec cat`;
    const size = ["-x", `${width}`, "-y", `${height}`];
    const run = ["env", "-i", "TERM=screen-256color", ...variables, "/bin/sh", "-c", shell].map(quoted).join(" ");
    this.tell(["-f", "/dev/null", "new-session", "-d", "-s", name, ...size, "-c", folder, run]);
    return new Pane(this, name);
  }

  tell(args: readonly string[]): string {
    return execFileSync("tmux", ["-u", "-S", this.#socket, ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  /** Ends everything that was opened. */
  end(): void {
    spawnSync("tmux", ["-S", this.#socket, "kill-server"], { stdio: "ignore" });
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export class Pane {
  readonly #tmux: Tmux;
  readonly #name: string;

  constructor(tmux: Tmux, name: string) {
    this.#tmux = tmux;
    this.#name = name;
  }

  /** What is on the screen, and what has left it at the top. */
  get text(): string {
    return this.#tmux.tell(["capture-pane", "-p", "-S", "-", "-t", this.#name]).trimEnd();
  }

  /** The same with the codes that style it. */
  get styled(): string {
    return this.#tmux.tell(["capture-pane", "-p", "-e", "-S", "-", "-t", this.#name]).trimEnd();
  }

  get cursorColumn(): number {
    return Number(this.#tmux.tell(["display-message", "-p", "-t", this.#name, "#{cursor_x}"]));
  }

  type(text: string): void {
    this.#tmux.tell(["send-keys", "-t", this.#name, "-l", text]);
  }

  press(...keys: readonly string[]): void {
    this.#tmux.tell(["send-keys", "-t", this.#name, ...keys]);
  }

  say(text: string): void {
    this.type(text);
    this.press("Enter");
  }

  /** Pastes as a terminal does, with marks around it where the program asked for them. */
  paste(text: string): void {
    this.#tmux.tell(["set-buffer", "-b", this.#name, text]);
    this.#tmux.tell(["paste-buffer", "-p", "-r", "-b", this.#name, "-t", this.#name]);
  }

  resize(width: number, height: number): void {
    this.#tmux.tell(["resize-window", "-t", this.#name, "-x", `${width}`, "-y", `${height}`]);
  }

  /** Closes the terminal under the program. */
  close(): void {
    this.#tmux.tell(["kill-session", "-t", this.#name]);
  }

  /** Waits until the screen is as expected, and gives it. */
  async until(expected: RegExp | ((text: string) => boolean)): Promise<string> {
    const fits = typeof expected === "function" ? expected : (text: string) => expected.test(text);
    const deadline = Date.now() + patienceMs;
    for (;;) {
      const { text } = this;
      if (fits(text)) return text;
      if (Date.now() > deadline) throw new Error(`never on the screen: ${String(expected)}\n${text}`);
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  }
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
