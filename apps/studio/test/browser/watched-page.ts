// A page that records everything that must not happen: errors on the console, uncaught exceptions, failed requests,
// requests to other origins, and violations of the Content-Security-Policy. A flow that stops the server on purpose
// says so with `allowFailures`.

import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";

export type Theme = "light" | "dark";
export type PageOptions = {
  readonly theme?: Theme;
  readonly width?: number;
  readonly height?: number;
  readonly reducedMotion?: boolean;
};

export class WatchedPage {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly origin: string;
  readonly problems: string[] = [];
  /** Everything that was written to the console. */
  readonly logged: string[] = [];
  /** The addresses of all requests. */
  readonly requested: string[] = [];
  #allowed: RegExp | null = null;

  private constructor(context: BrowserContext, page: Page, origin: string) {
    this.context = context;
    this.page = page;
    this.origin = origin;
  }

  /** Opens a page in a browser context of its own: no cookies and no storage are shared. */
  static async open(browser: Browser, origin: string, options: PageOptions = {}): Promise<WatchedPage> {
    const { theme = "dark", width = 1440, height = 900, reducedMotion = false } = options;
    const settings: BrowserContextOptions = {
      colorScheme: theme,
      viewport: { width, height },
      reducedMotion: reducedMotion ? "reduce" : "no-preference",
      locale: "en-GB",
      timezoneId: "UTC",
    };
    const context = await browser.newContext(settings);
    context.setDefaultTimeout(30_000);
    const page = await context.newPage();
    const watched = new WatchedPage(context, page, origin);
    await page.addInitScript(
      `addEventListener("securitypolicyviolation", (event) =>
         console.error("policy violation: " + event.violatedDirective + " " + event.blockedURI));`,
    );
    watched.#watch();
    return watched;
  }

  #watch(): void {
    const { page } = this;
    page.on("console", (message) => {
      this.logged.push(message.text());
      if (message.type() === "error") this.#report(`console: ${message.text()} (${message.location().url})`);
    });
    page.on("pageerror", (error) => this.#report(`uncaught: ${error.stack ?? error.message}`));
    page.on("request", (request) => {
      this.requested.push(request.url());
      const { protocol, origin } = new URL(request.url());
      if (protocol !== "data:" && protocol !== "blob:" && origin !== this.origin)
        this.problems.push(`request to another origin: ${request.url().slice(0, 200)}`);
    });
    page.on("requestfailed", (request) => {
      const reason = request.failure()?.errorText ?? "";
      // The page itself ends a request that it no longer needs, and a reload ends all.
      if (reason !== "net::ERR_ABORTED") this.#report(`failed: ${request.method()} ${request.url()} ${reason}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400)
        this.#report(`answered ${response.status()}: ${response.request().method()} ${response.url()}`);
    });
  }

  #report(problem: string): void {
    const isAllowed = this.#allowed !== null && this.#allowed.test(problem);
    if (!isAllowed && !this.problems.includes(problem)) this.problems.push(problem);
  }

  /** Problems that match are not reported, until `null` is given. */
  allowFailures(pattern: RegExp | null): void {
    this.#allowed = pattern;
  }

  async close(): Promise<readonly string[]> {
    await this.context.close();
    return this.problems;
  }
}

/** Waits until `read` returns a value that `isDone` accepts. Rejects with the last value. */
export async function until<T>(
  what: string,
  read: () => Promise<T>,
  isDone: (value: T) => boolean,
  limitMs = 60_000,
): Promise<T> {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await read();
    if (isDone(value)) return value;
    if (Date.now() > end) throw new Error(`${what}: still ${JSON.stringify(value).slice(0, 300)} after ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Rejects if a condition does not hold. */
export function check(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(what);
}
