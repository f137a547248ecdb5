// The rules of `npm run release:check` that need no installed package: each of them can fail.

import type { PackageFields, ReleaseFiles } from "../../tools/package/release-rules.ts";

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { createManifest } from "../../tools/package/create-package.ts";
import { readManifest } from "../../tools/package/entry-files.ts";
import {
  bundledPackages,
  checkAddresses,
  checkContents,
  checkLicences,
  checkVersion,
  publishCommand,
} from "../../tools/package/release-rules.ts";

const workspacePackage = { private: true, dependencies: { everturn: "*" } };
const release: ReleaseFiles = {
  library: { name: "everturn", version: "1.2.0" },
  others: { "apps/cli": workspacePackage, "apps/create-everturn": workspacePackage },
  lockedVersion: "1.2.0",
  changelog:
    "# Changelog\n\n## 1.2.0 (2026-11-16)\n\n### Added\n\n- A thing.\n- Another.\n\n## 1.1.0\n\n- An old thing.\n",
};
const withChangelog = (sections: string): ReleaseFiles => ({ ...release, changelog: `# Changelog\n\n${sections}` });
const withPackage = (fields: object): ReleaseFiles => ({
  ...release,
  others: { "apps/cli": { ...workspacePackage, ...fields } },
});

describe("version and changelog", () => {
  it("pass for a version that is declared once and has changes", () => {
    expect(checkVersion(release)).toBe("1.2.0, 2 changes");
    expect(checkVersion(withChangelog("## Unreleased\n\n- A thing.\n"))).toMatch(
      /^1\.2\.0, 1 changes under "Unreleased"/,
    );
  });

  it.each<[string, ReleaseFiles, RegExp]>([
    ["no version", { ...release, library: {} }, /is not a semantic version/],
    ["a version with two numbers", { ...release, library: { version: "1.2" } }, /1\.2 is not a semantic version/],
    [
      "another version in the lock file",
      { ...release, lockedVersion: "1.1.0" },
      /package-lock\.json has version 1\.1\.0/,
    ],
    ["a second declaration of the version", withPackage({ version: "1.2.0" }), /apps\/cli.* has a version/],
    ["a pinned dependency", withPackage({ dependencies: { everturn: "1.1.0" } }), /depends on everturn 1\.1\.0/],
    ["a workspace package that npm would publish", withPackage({ private: false }), /has to be private/],
    ["no section of the version", withChangelog("## 1.1.0\n\n- Old.\n"), /lists no changes for 1\.2\.0/],
    ["a section without changes", withChangelog("## 1.2.0\n\n### Added\n\n## 1.1.0\n\n- Old.\n"), /lists no changes/],
    ["a section of a prerelease only", withChangelog("## 1.2.0-beta.1\n\n- A thing.\n"), /lists no changes/],
    [
      "changes that are not released",
      withChangelog("## Unreleased\n\n- New.\n\n## 1.2.0\n\n- A.\n"),
      /has 1 changes under "Unreleased"/,
    ],
  ])("fail with %s", (_, files, expected) => {
    expect(() => checkVersion(files)).toThrow(expected);
  });
});

describe("the addresses of the project", () => {
  const repository = { type: "git", url: "git+https://example.com/everturn/everturn.git" };
  const homepage = "https://example.com";

  it("pass as texts and as an object", () => {
    expect(checkAddresses({ repository, homepage })).toBe(`${repository.url}, ${homepage}`);
    expect(checkAddresses({ repository: repository.url, homepage })).toBe(`${repository.url}, ${homepage}`);
  });

  it.each<[string, PackageFields, RegExp]>([
    ["no repository", { homepage }, /^lib\/package\.json: repository must be an https address, not undefined/],
    ["no homepage", { repository }, /homepage must be an https address, not undefined/],
    ["a repository without an address", { repository: { type: "git" }, homepage }, /repository must be/],
    ["an address of another protocol", { repository, homepage: "http://example.com/a" }, /homepage must be/],
    ["a repository that is a host alone", { repository: "https://example.com", homepage }, /repository must be/],
  ])("fail with %s", (_, manifest, expected) => {
    expect(() => checkAddresses(manifest)).toThrow(expected);
  });
});

describe("licences", () => {
  it("pass for packages with an allowed licence, and are read from the file in the bundle", () => {
    expect(checkLicences([{ name: "hono", license: "MIT" }])).toBe("hono (MIT)");
    const text =
      "The files contain code of these packages.\n\n@hono/node-server 2.1.6\n\nMIT License\n\ncommander 14.0.3-beta.1\n";
    expect(bundledPackages(text)).toEqual(["@hono/node-server", "commander"]);
  });

  it.each(["GPL-3.0-only", "AGPL-3.0", "UNLICENSED", undefined, { type: "MIT" }])("fail with %j", (license) => {
    const packages = [
      { name: "good", license: "MIT" },
      { name: "bad", license },
    ];
    expect(() => checkLicences(packages)).toThrow(/^bad has the licence/);
  });
});

describe("contents", () => {
  const documents = ["SKILL.md", "llms.txt", "docs/guide/getting-started.md"];
  const files = [
    "package.json",
    "README.md",
    "LICENSE",
    "bin/everturn.js",
    "dist/index.js",
    "dist/licenses.txt",
  ].concat("studio/index.html", "studio/THIRD-PARTY-LICENSES.txt", documents);

  it("pass for the files of the build", () => {
    expect(
      checkContents([
        ...files,
        "dist/types/index.d.ts",
        "react.css",
        "templates/app/src/agent.ts",
        "studio/assets/index-1-B.js",
        "studio/assets/index-1-B.js.map",
      ]),
    ).toBe("16 files");
  });

  it.each(["src/index.ts", ".env", "dist/.env", "studio/.stamp", "package.json.workspace"])("fail with %s", (name) => {
    expect(() => checkContents([...files, name])).toThrow(`unexpected files: ${name}`);
  });

  it("fail without the code", () => {
    expect(() => checkContents([...files.slice(0, 4), ...documents])).toThrow(
      "missing files: dist/index.js, dist/licenses.txt, studio/index.html, studio/THIRD-PARTY-LICENSES.txt",
    );
  });
});

describe("the publish command", () => {
  it("names the tarball by a path, which npm cannot take for a repository", () => {
    expect(publishCommand("release/everturn-1.2.0.tgz", "1.2.0").join(" ")).toBe(
      "publish ./release/everturn-1.2.0.tgz --access public",
    );
  });

  it("gives a prerelease a tag of its own", () => {
    expect(publishCommand("release/x.tgz", "1.2.0-beta.1").slice(-2)).toEqual(["--tag", "next"]);
  });
});

describe("the version of the library", () => {
  it("is that of create-everturn when it is packed, and of its dependency", () => {
    const source = readManifest(join(import.meta.dirname, "../../apps/create-everturn"));
    const published = createManifest(source, { ...readManifest(), version: "9.8.7" });
    expect(published).toMatchObject({ name: "create-everturn", version: "9.8.7", dependencies: { everturn: "9.8.7" } });
    expect(Object.keys(published)).not.toContain("private");
  });

  it("is that of the OpenAPI document", () => {
    const source = readFileSync(join(import.meta.dirname, "../src/serve/http/openapi/openapi.ts"), "utf8");
    expect(source).toContain(`libraryVersion = "${readManifest().version}"`);
  });
});

it("the hono in the bundle has no known advisory, and an application cannot bring an older one", () => {
  const manifest: { readonly [field: string]: unknown } = JSON.parse(
    readFileSync(join(import.meta.dirname, "../package.json"), "utf8"),
  );
  const { devDependencies, dependencies, peerDependencies } = manifest;
  expect(devDependencies).toMatchObject({ hono: expect.stringMatching(/^\d+\.\d+\.\d+$/) });
  for (const others of [dependencies, peerDependencies]) expect(others).not.toHaveProperty("hono");
  const installed = JSON.parse(readFileSync(join(import.meta.dirname, "../../node_modules/hono/package.json"), "utf8"));
  expect(devDependencies).toMatchObject({ hono: installed.version });
  const [major, minor, patch] = String(installed.version).split(".").map(Number);
  // GHSA-88fw-hqm2-52qc, GHSA-j6c9-x7qj-28xf and GHSA-wwfh-h76j-fc44 are repaired in 4.12.25, earlier ones before.
  expect([major, (minor ?? 0) * 1000 + (patch ?? 0) >= 12_025]).toEqual([4, true]);
});
