// Nothing may use the platform before the first request. Workers load modules in a global scope without random numbers,
// timers and I/O; code that uses one of them there prevents the program from starting.

import { afterEach, expect, test, vi } from "vitest";

afterEach(() => void vi.unstubAllGlobals());

test("loading the entry points and building engines, runtimes, handlers and clients uses no network, timer or random number", async () => {
  const asked: string[] = [];
  const refuses = (name: string) => () => {
    asked.push(name);
    throw new Error(`${name} before there is a request`);
  };
  vi.resetModules();
  vi.stubGlobal("crypto", {
    getRandomValues: refuses("getRandomValues"),
    randomUUID: refuses("randomUUID"),
    subtle: { digest: refuses("digest") },
  });
  for (const name of ["fetch", "setTimeout", "setInterval", "queueMicrotask"]) vi.stubGlobal(name, refuses(name));

  const { anthropic, engine, fake, gemini, openai, preset, providers, tool } = await import("everturn");
  const { createClient } = await import("everturn/client");
  const { memoryStorage } = await import("everturn/runtime");
  const { createHandler } = await import("everturn/http");
  const { runtime } = await import("everturn/runtime");
  const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
  const adapter = providers({ openai: openai(), anthropic: anthropic(), gemini: gemini(), ollama: preset("ollama") });
  const engines = {
    default: engine({ adapter, model: "openai:m", tools: [look] }),
    scripted: engine({ adapter: fake(), model: "fake:m" }),
  };
  const sessions = runtime({ host: memoryStorage(), engines });
  const token = "a-secret-bearer-token";
  createHandler({ sessions: sessions.tenant("t"), auth: [{ token }], origins: ["https://example.com"] });
  createClient({ url: "https://example.com", token });

  expect(asked).toEqual([]);
});
