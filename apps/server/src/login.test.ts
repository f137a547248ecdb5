import { describe, expect, test } from "vitest";

import { createLoginCode, LoginCodes, loginCodeMs, withLogin } from "./login.ts";

const token = "0123456789abcdef0123456789abcdef0123456789a";
const start = 1_800_000_000_000;
const codes = () => new LoginCodes(token, 4242, start);

describe("a login code", () => {
  test("is exchanged for the token once", () => {
    const accepting = codes();
    const [first, second] = [createLoginCode(token, 4242, start), createLoginCode(token, 4242, start)];
    expect([first, first, second, second].map((code) => accepting.redeem(code, start + 1))).toEqual([
      token,
      null,
      token,
      null,
    ]);
  });

  test("does not contain the token, and no two are equal", () => {
    const all = Array.from({ length: 100 }, () => createLoginCode(token, 4242, start));
    expect(new Set(all).size).toBe(100);
    expect(all.some((code) => code.includes(token))).toBe(false);
  });

  test.each([
    ["has expired", createLoginCode(token, 4242, start), start + loginCodeMs, null],
    ["is about to expire", createLoginCode(token, 4242, start), start + loginCodeMs - 1, token],
    [
      "is older than the server, which a restart would accept again",
      createLoginCode(token, 4242, start - 1),
      start,
      null,
    ],
    ["is from the future", createLoginCode(token, 4242, start + 2), start + 1, null],
    ["is for the server at another port", createLoginCode(token, 4243, start), start, null],
    ["is of another token", createLoginCode(`${token.slice(1)}b`, 4242, start), start, null],
  ])("that %s", (_, code, now, expected) => {
    expect(codes().redeem(code, now)).toBe(expected);
  });

  test("with a changed character is refused, wherever it is", () => {
    const accepting = codes();
    const code = createLoginCode(token, 4242, start);
    const changed = Array.from(code, (character, index) => {
      const other = character === "0" ? "1" : "0";
      return `${code.slice(0, index)}${other}${code.slice(index + 1)}`;
    });
    // The last character of the digest has bits that the encoding does not use.
    expect(changed.slice(0, -1).filter((text) => accepting.redeem(text, start) !== null)).toEqual([]);
    for (const text of ["", ".", "..", "a.b.c", `${code} `, ` ${code}`, code.repeat(2), `${code}\n`])
      expect(accepting.redeem(text, start)).toBeNull();
    expect(accepting.redeem(code, start)).toBe(token);
  });
});

describe("POST /login", () => {
  const handler = (accepting: LoginCodes | null) =>
    withLogin(
      async () => new Response("next", { status: 418 }),
      () => accepting,
    );
  const post = (body: string, headers: Record<string, string> = { "content-type": "application/json" }) =>
    new Request("http://127.0.0.1:4242/login", { method: "POST", headers, body });
  const current = () => new LoginCodes(token, 4242, Date.now() - 1000);

  test("returns the token, which is not cached", async () => {
    const answer = await handler(current())(post(JSON.stringify({ code: createLoginCode(token, 4242) })));
    expect([answer.status, answer.headers.get("cache-control"), await answer.json()]).toEqual([
      200,
      "no-store",
      { token },
    ]);
  });

  test.each([
    ["a wrong code", post('{"code":"wrong"}'), 401],
    ["no JSON", post("code=wrong"), 401],
    ["JSON without a code", post("[]"), 401],
    ["a long body", post(JSON.stringify({ code: "x".repeat(5000) })), 401],
    ["a form, which a page of another origin can send", post("{}", { "content-type": "text/plain" }), 415],
    ["a code in the address", new Request("http://127.0.0.1:4242/login?code=x"), 405],
    ["another path", new Request("http://127.0.0.1:4242/sessions"), 418],
  ])("%s is refused or passed on", async (_, request, status) => {
    const answer = await handler(current())(request);
    expect(answer.status).toBe(status);
    if (status !== 418) expect(await answer.json()).toMatchObject({ error: { type: "http_error" } });
  });

  test("is no route of a server whose tokens are configured", async () => {
    expect((await handler(null)(post("{}"))).status).toBe(418);
  });
});
