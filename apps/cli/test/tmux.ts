// A real terminal for the tests: a tmux server on its own socket, separate from servers of the user, which the tests
// can end completely.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../../lib/bin/everturn.js", import.meta.url));

export const hasTmux: boolean = process.platform !== "win32" && spawnSync("tmux", ["-V"]).status === 0;

/** The timeout of `until`, in milliseconds. */
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

  /**
   * Opens a terminal and runs the command in it. The exit code is printed when the command ends, and the terminal stays
   * open.
   */
  open(argv: readonly string[], { folder, width = 80, height = 24, environment = {} }: PaneOptions): Pane {
    this.#count += 1;
    const name = `pane${this.#count}`;
    const own = { HOME: folder, XDG_DATA_HOME: folder, LC_ALL: "C.UTF-8", PATH: process.env["PATH"] ?? "" };
    const variables = Object.entries({ ...own, ...environment }).map(([key, value]) => `${key}=${value}`);
    const command = [process.execPath, main, ...argv].map(quoted).join(" ");
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

  /** The text of the screen and of its scrollback. */
  get text(): string {
    return this.#tmux.tell(["capture-pane", "-p", "-S", "-", "-t", this.#name]).trimEnd();
  }

  /** As `text`, with style sequences. */
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

  /** Pastes text, as a bracketed paste if the program has enabled it. */
  paste(text: string): void {
    this.#tmux.tell(["set-buffer", "-b", this.#name, text]);
    this.#tmux.tell(["paste-buffer", "-p", "-r", "-b", this.#name, "-t", this.#name]);
  }

  resize(width: number, height: number): void {
    this.#tmux.tell(["resize-window", "-t", this.#name, "-x", `${width}`, "-y", `${height}`]);
  }

  /** Ends the program with SIGKILL, as a crash does: it can neither release its turn nor restore the terminal. */
  kill(): void {
    this.signal("SIGKILL");
  }

  /** Sends a signal to the program. */
  signal(name: "SIGKILL" | "SIGSTOP"): void {
    const shell = this.#tmux.tell(["display-message", "-p", "-t", this.#name, "#{pane_pid}"]).trim();
    const program = execFileSync("ps", ["-o", "pid=", "--ppid", shell], { encoding: "utf8" }).trim();
    process.kill(Number(program), name);
  }

  /** Closes the terminal while the program runs. */
  close(): void {
    this.#tmux.tell(["kill-session", "-t", this.#name]);
  }

  /** Waits until the screen matches, and returns its text. */
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
