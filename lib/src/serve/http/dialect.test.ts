// Dialects as an option of the handler: which routes exist, the format of their errors, and dialects that cannot be
// served together.

import type { Dialect } from "everturn/http";

import { engine, fake, MisuseError } from "everturn";
import { agUi, aiSdkChat, createHandler, openaiCompletions } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { trialDialect, trialPaths } from "../../../test/trial-dialect.ts";

const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });

function served(dialects?: readonly Dialect[], basePath = "") {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const handler = createHandler({
    sessions,
    auth: "none",
    basePath,
    ...(dialects === undefined ? {} : { dialects }),
  });
  const ask = async (method: string, path: string) => {
    const response = await handler(new Request(`http://localhost${basePath}${path}`, { method }));
    return { status: response.status, allow: response.headers.get("allow"), json: JSON.parse(await response.text()) };
  };
  const paths = async () => Object.keys((await ask("GET", "/openapi.json")).json.paths);
  return { ask, paths };
}

/** A dialect whose routes are those of OpenAI's, at other paths. */
function movedTo(name: string, path: string): Dialect {
  const { routes } = openaiCompletions({ agent });
  return { name, routes: (settings) => routes(settings).map((route) => ({ ...route, path })) };
}

const all = [aiSdkChat(), agUi(), openaiCompletions({ agent })];
const dialectPaths = [
  ["ai-sdk-chat", ["/ui/chat", "/ui/chat/{id}/stream", "/ui/chat/{id}/stop", "/ui/chat/{id}"]],
  ["ag-ui", ["/ag-ui"]],
  ["openai-completions", ["/v1/chat/completions", "/v1/models", "/v1/models/{model}"]],
] as const;

describe("the routes of a dialect", () => {
  test("do not exist by default", async () => {
    const { ask, paths } = served();
    const described = await paths();
    expect(described).toContain("/sessions");
    for (const path of dialectPaths.flatMap(([, routePaths]) => routePaths)) {
      expect(described).not.toContain(path);
      expect((await ask("GET", path)).status).toBe(404);
    }
  });

  test.each(dialectPaths)("%s: exist and are described if it is passed", async (name, routePaths) => {
    const own = await served().paths();
    const { paths } = served(all.filter((dialect) => dialect.name === name));
    expect((await paths()).filter((path) => !own.includes(path))).toEqual(routePaths);
  });

  test("are described in the order of the dialects, before the health check", async () => {
    const described = await served(all).paths();
    const inOrder = dialectPaths.flatMap(([, routePaths]) => routePaths);
    expect(described.slice(-inOrder.length - 1)).toEqual([...inOrder, "/health"]);
  });
});

describe("errors", () => {
  const openaiFormat = { error: { type: "invalid_request_error", code: "method_not_allowed" } };

  test.each(["", "/api"])("have the format of the dialect whose path was called, mounted at %j", async (basePath) => {
    const { ask } = served(all, basePath);
    expect(await ask("DELETE", "/v1/models")).toMatchObject({ status: 405, allow: "GET, HEAD", json: openaiFormat });
    expect(await ask("DELETE", "/v1/models/agent")).toMatchObject({ status: 405, json: openaiFormat });
    const apiFormat = { status: 405, json: { error: { reason: "method_not_allowed" } } };
    expect(await ask("DELETE", "/ui/chat")).toMatchObject(apiFormat);
    expect(await ask("DELETE", "/ag-ui")).toMatchObject(apiFormat);
    expect(await ask("PUT", "/sessions")).toMatchObject(apiFormat);
  });

  test("of routes that throw have the format of their dialect, and are reported if they are internal", async () => {
    const reported: unknown[] = [];
    const failing: Dialect = {
      ...trialDialect(() => Promise.reject(new Error("broken"))),
      errorResponse: () => Response.json({ own: "format" }, { status: 500 }),
    };
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const onError = (error: unknown) => reported.push(error);
    const handler = createHandler({ sessions, auth: "none", dialects: [failing], onError });
    const response = await handler(new Request(`http://localhost${trialPaths[1]}`));
    expect([response.status, await response.json()]).toEqual([500, { own: "format" }]);
    expect(reported).toEqual([new Error("broken")]);
  });
});

describe("dialects that cannot be served together", () => {
  const misuse = (dialects: readonly Dialect[]) => {
    try {
      served(dialects);
    } catch (error) {
      if (error instanceof MisuseError) return { message: error.message, path: error.path };
      throw error;
    }
    return null;
  };

  test("two of one name", () => {
    expect(misuse([openaiCompletions({ a: agent }), agUi(), openaiCompletions({ b: agent })])).toEqual({
      message: expect.stringContaining('two dialects are named "openai-completions"; pass each dialect once'),
      path: ["dialects", 2],
    });
  });

  test.each([
    ["/ag-ui", "/ag-ui"],
    ["/ui/chat/mine", "/ui/chat/{id}"],
    ["/ui/chat/{chat}/stop", "/ui/chat/{id}/stop"],
    ["/sessions", "/sessions"],
    ["/sessions/mine", "/sessions/{id}"],
    ["/health", "/health"],
    ["/openapi.json", "/openapi.json"],
  ])("a path %s beside %s", (path, other) => {
    const error = misuse([aiSdkChat(), agUi(), movedTo("mine", path)]);
    expect(error?.message).toContain(`the path ${path} of the dialect "mine" clashes with ${other} of `);
    expect(error?.path).toEqual(["dialects", 2]);
  });

  test("paths of another length or with other fixed segments do not clash", () => {
    expect(misuse([aiSdkChat(), agUi(), movedTo("mine", "/ui/chats/{id}")])).toBeNull();
    expect(misuse([aiSdkChat(), agUi(), movedTo("mine", "/ui")])).toBeNull();
  });
});
