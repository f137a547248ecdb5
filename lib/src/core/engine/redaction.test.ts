import { inspect } from "node:util";

import { chat, configure, engine, generateImage, openaiCompatible, openaiImages, subscribe } from "everturn";
import { adapterFailure } from "everturn/advanced";
import { embed, openaiEmbeddings } from "everturn/middleware";
import { afterEach, describe, expect, test } from "vitest";

import { playing, plain, calls, says } from "../../../test/runs.ts";
import { failureWithoutKey, withoutKey } from "./redaction.ts";

const key = "sk-test/Ünïcode+secret==0123456789";

function lowerCase(encoded: string): string {
  return encoded.replaceAll(/%../g, (digits) => digits.toLowerCase());
}

afterEach(() => void configure({ redact: null }));

describe("a secret of a call", () => {
  test.each([
    ["as it is", key],
    ["URL-encoded", encodeURIComponent(key)],
    ["URL-encoded with lower-case digits", lowerCase(encodeURIComponent(key))],
    ["URL-encoded twice", encodeURIComponent(encodeURIComponent(key))],
    ["URL-encoded twice with lower-case digits", encodeURIComponent(lowerCase(encodeURIComponent(key)))],
    ["in a form", new URLSearchParams({ key: `${key} ~` }).toString()],
    ["escaped as in JSON", key.replaceAll("/", "\\/")],
    ["in Base64", Buffer.from(key).toString("base64")],
    ["in URL-safe Base64", Buffer.from(key).toString("base64url")],
    ["in Base64 after one byte", Buffer.from(`x${key}`).toString("base64")],
    ["in Base64 after two bytes", Buffer.from(`xy${key}`).toString("base64")],
    ["in Base64 after a user name", Buffer.from(`me:${key}:rest`).toString("base64")],
    ["in Base64 inside of a text", Buffer.from(`{"authorization":"Bearer ${key}"}`).toString("base64url")],
    ["in hexadecimal", Buffer.from(key).toString("hex")],
    ["in hexadecimal with capital letters", Buffer.from(key).toString("hex").toUpperCase()],
  ])("is redacted %s", (_, form) => {
    const shown = withoutKey(`before ${form} after`, key);
    expect(shown).toContain("[key]");
    expect(shown).toMatch(/^before .* after$/);
    const decoded = Buffer.from(shown.replace(/^before | after$/g, ""), "base64").toString("utf8");
    expect(shown + decoded).not.toContain(key.slice(4, -4));
  });

  test("that is shorter than eight characters is no secret", () => {
    expect(withoutKey("none of them", "none")).toBe("none of them");
  });

  test("is redacted at any depth of a failure, also if there are several", () => {
    const failure = adapterFailure("unknown", {
      message: `a ${key}`,
      raw: `b other-secret-1`,
      metadata: { at: [key] },
    });
    const shown = JSON.stringify(failureWithoutKey(failure, [key, "other-secret-1"]));
    expect(shown).not.toContain("secret");
    expect(shown.match(/\[key\]/g)).toHaveLength(3);
  });
});

test("values of headers that a program adds are redacted from failures, with the key, also encoded", async () => {
  const headers = { "X-Acme-Auth": "Bearer gateway-token-0123456789", "User-Agent": "my-program/1.0 (test)" };
  const adapter = openaiCompatible({
    baseURL: "http://provider.test/v1",
    apiKey: "key-0123456789",
    headers,
    fetch: async (_, init) => {
      const sent = new Headers(init?.headers);
      const echo = [...sent].map(([name, value]) => `${name}: ${value}; ${Buffer.from(value).toString("base64")}`);
      return new Response(JSON.stringify({ error: { message: echo.join("\n") } }), { status: 400 });
    },
  });
  const result = await chat(engine({ adapter, model: "compatible:m", retry: false }), "hi").catch(
    (error: unknown) => error,
  );
  const shown = JSON.stringify(result, Object.getOwnPropertyNames(result)) + JSON.stringify(result);
  expect(shown).not.toContain("0123456789");
  expect(shown).not.toContain(Buffer.from("key-0123456789").toString("base64").slice(2, -4));
  expect(shown).toContain("my-program/1.0");
});

describe("the redaction hook", () => {
  const redact = (text: string, place: string) => text.replaceAll(/\d{4}-\d{4}/g, `<${place}>`);

  test("applies to failures of providers before they are stored", async () => {
    configure({ redact });
    const { engine: of } = playing([[{ type: "error", reason: "invalid_request", message: "card 1234-5678" }]]);
    const result = await chat(of, "hi");
    expect(JSON.stringify(result)).toContain("card <provider>");
    expect(JSON.stringify(result)).not.toContain("1234");
  });

  test("applies to the errors that telemetry reports", async () => {
    configure({ redact });
    const errors: string[] = [];
    const stop = subscribe((event) => void (event.type === "exception" && errors.push(event.error)));
    const broken = plain("broken", () => Promise.reject(new Error("no row for 1234-5678")));
    await chat(playing([calls("broken"), says("ok")], [broken]).engine, "hi");
    stop();
    expect(errors).toEqual(["no row for <log>"]);
  });

  test("that throws, or returns no string, hides the text", async () => {
    for (const broken of [() => JSON.parse("{"), () => undefined]) {
      configure({ redact: (text) => broken() ?? Reflect.get({}, text) });
      const { engine: of } = playing([[{ type: "error", reason: "invalid_request", message: "card 1234-5678" }]]);
      expect(JSON.stringify(await chat(of, "hi"))).toContain("[redaction failed]");
    }
  });
});

describe("images and embeddings", () => {
  const headers = { "X-Acme-Auth": "Bearer gateway-token-0123456789", "User-Agent": "my-program/1.0 (test)" };
  const ofCall = { headers: { "x-tenant-secret": "tenant-secret-0123456789" } };
  const echoing = async (_: string, init: RequestInit) => {
    const sent = [...new Headers(init.headers)].map(([name, value]) => `${name}: ${value}; ${btoa(value)}`);
    return new Response(JSON.stringify({ error: { message: `card 1234-5678 ${sent.join("\n")}` } }), { status: 400 });
  };
  const options = { baseURL: "http://provider.test/v1", apiKey: "key-0123456789", headers, fetch: echoing };
  const images = engine({ imageAdapter: openaiImages(options), retry: false });
  const calls = {
    images: () => generateImage(images, "a cat", { model: "gpt-image-1", adapterOptions: ofCall }),
    embeddings: () =>
      embed(openaiEmbeddings({ ...options, model: "text-embedding-3-small" }), "hi", {
        retry: false,
        adapterOptions: ofCall,
      }),
  };

  test.each(Object.entries(calls))("%s redact what chat calls redact: key, added headers, the hook", async (_, run) => {
    configure({ redact: (text, place) => text.replaceAll(/\d{4}-\d{4}/g, `<${place}>`) });
    const error: unknown = await run().catch((thrown: unknown) => thrown);
    const shown = inspect(error, { depth: 20 }) + JSON.stringify(error);
    expect(shown).not.toContain("0123456789");
    expect(shown).not.toContain("1234-5678");
    for (const secret of ["key-0123456789", "gateway-token-0123456789", "tenant-secret-0123456789"])
      expect(shown).not.toContain(btoa(secret).slice(2, -4));
    expect(shown).toContain("card <provider>");
    expect(shown).toContain("my-program/1.0");
  });

  test("the raw body of images is redacted by the hook, and the images are not", async () => {
    configure({ redact: (text, place) => (place === "provider" ? text.replaceAll("AAAA", "x") : text) });
    const body = { data: [{ b64_json: "AAAA" }], note: "AAAA key-0123456789" };
    const fetch = async () => new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } });
    const adapter = openaiImages({ ...options, fetch });
    const answer = await generateImage(engine({ imageAdapter: adapter }), "a cat", { model: "gpt-image-1" });
    expect(answer.raw).toMatchObject({ note: "x [key]" });
    expect(answer.images).toMatchObject([{ source: { data: "AAAA" } }]);
  });
});
