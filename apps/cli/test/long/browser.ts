// A Chromium that a test controls: opens a page, evaluates JavaScript in it, takes screenshots. It speaks the DevTools
// protocol over a pipe (`--remote-debugging-pipe`): JSON messages that end with a NUL byte, on the file descriptors 3
// and 4. No package is needed.

import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";

type Json = { readonly [name: string]: unknown };
type Waiting = { readonly resolve: (result: Json) => void; readonly reject: (error: Error) => void };

export class Browser {
  readonly #process: ChildProcess;
  readonly #input: Writable;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #session: string | null = null;

  private constructor(process: ChildProcess, input: Writable, output: Readable) {
    this.#process = process;
    this.#input = input;
    let text = "";
    output.setEncoding("utf8").on("data", (chunk: string) => {
      const messages = (text + chunk).split("\0");
      text = messages.pop() ?? "";
      for (const message of messages) this.#receive(JSON.parse(message));
    });
  }

  /** Starts Chromium with a new profile and opens an empty page of 800 by 700 pixels. */
  static async start(path: string, profile: string): Promise<Browser> {
    const flags = [
      "--headless=new",
      "--disable-gpu",
      "--no-first-run",
      "--disable-dev-shm-usage",
      "--window-size=800,700",
    ];
    // Chromium has no sandbox for root, and the page is trusted.
    const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    const child = spawn(path, [...flags, ...sandbox, `--user-data-dir=${profile}`, "--remote-debugging-pipe"], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
      // Chromium has several processes: they are one process group and are ended together.
      detached: true,
    });
    const [, , , input, output] = child.stdio;
    if (!(input instanceof Writable) || !(output instanceof Readable)) throw new Error("Chromium has no pipes");
    const browser = new Browser(child, input, output);
    const { targetId } = await browser.#call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await browser.#call("Target.attachToTarget", { targetId, flatten: true });
    browser.#session = String(sessionId);
    await browser.#call("Page.enable");
    return browser;
  }

  async open(url: string): Promise<void> {
    await this.#call("Page.navigate", { url });
    await this.until("document.readyState === 'complete'");
  }

  /** Evaluates an expression in the page and returns its JSON value. */
  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.#call("Runtime.evaluate", {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    return typeof result === "object" && result !== null && "value" in result ? result.value : undefined;
  }

  /** Waits until an expression is true in the page, for at most 30 seconds. */
  async until(expression: string): Promise<void> {
    for (let tries = 0; tries < 600; tries += 1) {
      if ((await this.evaluate(expression)) === true) return;
      await setTimeout(50);
    }
    throw new Error(
      `it never became true: ${expression}; the page says ${String(await this.evaluate("document.body.innerText"))}`,
    );
  }

  /** Types a text into the focused element, and presses Enter. */
  async type(text: string): Promise<void> {
    await this.insert(text);
    await this.press("Enter");
  }

  /** Types a text into the focused element. */
  async insert(text: string): Promise<void> {
    await this.#call("Input.insertText", { text });
  }

  /** Presses a key: Enter, or a letter. */
  async press(key: string): Promise<void> {
    const details =
      key === "Enter"
        ? { code: key, text: "\r", windowsVirtualKeyCode: 13 }
        : { code: `Key${key.toUpperCase()}`, text: key };
    for (const type of ["keyDown", "keyUp"]) await this.#call("Input.dispatchKeyEvent", { type, key, ...details });
  }

  async screenshot(file: string): Promise<void> {
    const { data } = await this.#call("Page.captureScreenshot", { format: "png" });
    writeFileSync(file, Buffer.from(String(data), "base64"));
  }

  async close(): Promise<void> {
    const { pid } = this.#process;
    const exited = once(this.#process, "exit");
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
    await exited;
  }

  #call(method: string, params: Json = {}): Promise<Json> {
    this.#lastId += 1;
    const id = this.#lastId;
    const session = this.#session === null ? {} : { sessionId: this.#session };
    this.#input.write(`${JSON.stringify({ id, method, params, ...session })}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  #receive(message: {
    readonly id?: number;
    readonly result?: Json;
    readonly error?: { readonly message: string };
  }): void {
    const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id);
    if (waiting === undefined || message.id === undefined) return;
    this.#waiting.delete(message.id);
    if (message.error === undefined) waiting.resolve(message.result ?? {});
    else waiting.reject(new Error(message.error.message));
  }
}
