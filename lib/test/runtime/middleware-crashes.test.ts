// The crash matrix (H7) over engines with middleware: a kill at a crash point changes nothing that it would not change
// without middleware. `npm test` samples crash points; EVERTURN_CRASH_POINTS=all kills at every one.
//
// The response cache is not among them: with it, a model call that was begun and not recorded is not sent again, which
// the matrix requires. middleware.test.ts has that case.

import type { Middleware } from "everturn/advanced";
import type { CrashScenario } from "everturn/testing";

import { defaultSettings, guardrails, logging, rateLimit, redactPii } from "everturn/middleware";
import { memoryStorage } from "everturn/runtime";
import { crashMatrix, crashScenarios } from "everturn/testing";
import { expect, test } from "vitest";

const ignore = () => undefined;

/** The middleware of one process. All of it passes calls on. */
function middleware(): readonly Middleware[] {
  return [
    logging({ logger: { debug: ignore, info: ignore, warn: ignore } }),
    guardrails({ before: [() => null], after: [() => null], beforeTool: [() => null], afterTool: [() => null] }),
    redactPii(),
    defaultSettings({ "*": { seed: 7 } }),
    rateLimit({ requestsPerMinute: 1_000_000, tokensPerMinute: 1_000_000_000 }),
  ];
}

/** The scenario with middleware around all of its engines. */
function wrapped(scenario: CrashScenario): CrashScenario {
  return {
    ...scenario,
    engines: (process) =>
      Object.fromEntries(
        Object.entries(scenario.engines(process)).map(([name, engine]) => [
          name,
          { ...engine, middleware: middleware() },
        ]),
      ),
  };
}

const everyPoint = process.env["EVERTURN_CRASH_POINTS"] === "all";
const open = async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined });

test.each(crashScenarios.map((scenario) => ({ name: scenario.name, scenario })))(
  "$name",
  { timeout: everyPoint ? 1_800_000 : 60_000 },
  async ({ name, scenario }) => {
    const sample = everyPoint ? { every: 1, away: 5 } : { every: name === "a turn of many steps" ? 199 : 71 };
    const report = await crashMatrix(wrapped(scenario), { open, ...sample });
    expect(
      report.broken.map(({ killedAt, what }) => [
        ...killedAt.map(({ number, kind, what: at }) => `${number} ${kind} ${at}`),
        what,
      ]),
    ).toEqual([]);
    expect(report.kills).toBeGreaterThan(0);
  },
);
