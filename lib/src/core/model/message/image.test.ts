import { imageFromBase64, imageFromBinary, imageFromFile, imageFromUrl, imageToBinary, MisuseError } from "everturn";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { fromBase64, toBase64 } from "./base64.ts";
import { image, imageToDataUri } from "./image.ts";

const bytes = new Uint8Array([104, 105]);
const readFile = () => bytes;
const missing = () => {
  throw Object.assign(new Error("no such file"), { code: "ENOENT" });
};

describe("[allm 5] image sources", () => {
  test.each([
    ["a.png", "image/png"],
    ["a.JPG", "image/jpeg"],
    ["dir.v2/a.jpeg", "image/jpeg"],
    ["a.webp", "image/webp"],
    ["a.gif", "image/gif"],
    ["a.tiff", null],
    ["png", null],
    ["dir.png/a", null],
  ])("imageFromFile: %s has the MIME type %s, and no file is read", (path, mimeType) => {
    expect(imageFromFile(path)).toMatchObject({ source: { type: "file", path }, mimeType });
  });

  test("imageFromBinary stores bytes as base64 with their MIME type", () => {
    expect(imageFromBinary(bytes, "image/png")).toMatchObject({ source: { type: "base64", data: "aGk=" } });
    expect(imageFromBase64("not base64", "image/png").source).toEqual({ type: "base64", data: "not base64" });
    expect(() => imageFromBase64("aGk=", JSON.parse("null"))).toThrow(MisuseError);
  });

  test("imageFromUrl does not fetch the URL", () => {
    expect(imageFromUrl("https://example.com/cat.png")).toMatchObject({
      source: { type: "url", url: "https://example.com/cat.png" },
      mimeType: null,
    });
  });
});

describe("[allm 6] imageToBinary and imageToDataUri", () => {
  const file = imageFromFile("cat.png");
  const untypedFile = imageFromFile("cat");
  const uploaded = image({ source: { type: "provider_file", provider: "openai", id: "file-1" } });

  test("to binary", () => {
    expect(imageToBinary(imageFromBinary(bytes, "image/png"))).toEqual({ ok: true, value: bytes });
    expect(imageToBinary(imageFromBase64("a", "image/png"))).toMatchObject({
      ok: false,
      failure: { reason: "invalid_base64" },
    });
    expect(imageToBinary(imageFromUrl("https://example.com"))).toMatchObject({ failure: { reason: "remote_source" } });
    expect(imageToBinary(uploaded)).toMatchObject({ failure: { reason: "remote_source" } });
    expect(imageToBinary(file, readFile)).toEqual({ ok: true, value: bytes });
    expect(imageToBinary(file)).toMatchObject({ failure: { reason: "file_source" } });
    expect(imageToBinary(file, missing)).toMatchObject({
      failure: { reason: "unreadable_file", cause: { code: "ENOENT" } },
    });
  });

  test("to a data URI", () => {
    expect(imageToDataUri(imageFromBinary(bytes, "image/png"))).toEqual({
      ok: true,
      value: "data:image/png;base64,aGk=",
    });
    expect(imageToDataUri(imageFromBase64("as it is", "image/png"))).toMatchObject({
      value: "data:image/png;base64,as it is",
    });
    expect(imageToDataUri(file, readFile)).toMatchObject({ value: "data:image/png;base64,aGk=" });
    expect(imageToDataUri(file, missing)).toMatchObject({ failure: { reason: "unreadable_file" } });
    expect(imageToDataUri(untypedFile, readFile)).toMatchObject({ failure: { reason: "missing_mime_type" } });
    expect(imageToDataUri(imageFromUrl("https://example.com"))).toMatchObject({ failure: { reason: "remote_source" } });
  });
});

describe("base64", () => {
  test("agrees with Node's Buffer in both directions, for any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (any) => {
        const text = Buffer.from(any).toString("base64");
        expect(toBase64(any)).toBe(text);
        expect(fromBase64(text)).toEqual(any);
        expect(fromBase64(text.replaceAll("=", ""))).toEqual(any);
      }),
    );
  });

  test.each(["a", "aGk==", "aGk=a", "aG=k", "a-_k", "aG k\u00e9", "====", "aGkx="])(
    "%j is not valid base64",
    (text) => {
      expect(fromBase64(text)).toBeNull();
    },
  );

  test("line breaks are skipped", () => {
    expect(fromBase64("aG\r\nk=\n")).toEqual(bytes);
    expect(fromBase64("")).toEqual(new Uint8Array());
  });
});
