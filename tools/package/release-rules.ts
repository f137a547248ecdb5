// The rules of a release that need no installed package: version, changelog, addresses, licences and contents. Each
// function returns a line for the report, or throws an error that says what to change. They take values and read no
// files, so that tests can break every rule (lib/test/release-rules.test.ts).
//
// The version has one declaration: `version` of lib/package.json. Workspace packages have none and depend on `everturn`
// with "*"; create-everturn gets version and dependency when it is packed (create-package.ts).

export type ReleaseFiles = {
  /** package.json of the library. */
  readonly library: PackageFields;
  /** package.json of every other package of the workspace, by folder. */
  readonly others: { readonly [folder: string]: PackageFields };
  /** The version of the library in package-lock.json. */
  readonly lockedVersion: string | undefined;
  readonly changelog: string;
};

export type PackageFields = {
  readonly name?: string;
  readonly version?: string;
  readonly private?: boolean;
  readonly license?: unknown;
  /** An address, or an object with one (`url`). */
  readonly repository?: unknown;
  readonly homepage?: unknown;
  readonly dependencies?: { readonly [name: string]: string };
};

/** Checks that one place declares the version, and that the changelog has the changes of it. */
export function checkVersion({ library, others, lockedVersion, changelog }: ReleaseFiles): string {
  const version = library.version ?? "";
  if (!/^\d+\.\d+\.\d+(?:-[\da-z.-]+)?$/i.test(version)) throw new Error(`${version} is not a semantic version`);
  if (lockedVersion !== version) {
    throw new Error(
      `package-lock.json has version ${String(lockedVersion)} of lib, lib has ${version}: run npm install`,
    );
  }
  for (const [folder, { version: own, private: isPrivate, dependencies }] of Object.entries(others)) {
    if (own !== undefined) throw new Error(`${folder}/package.json has a version; only lib/package.json declares it`);
    if (isPrivate !== true) throw new Error(`${folder}/package.json has to be private`);
    const range = dependencies?.["everturn"];
    if (range !== "*") throw new Error(`${folder}/package.json depends on everturn ${String(range)} in place of "*"`);
  }
  return `${version}, ${changesOf(changelog, version)}`;
}

/**
 * Checks that the package names its repository and its homepage: the registry shows both, and reports of defects and of
 * vulnerabilities are sent there. The workspace has none before the project has an address.
 */
export function checkAddresses({ repository, homepage }: PackageFields): string {
  const url =
    typeof repository === "object" && repository !== null && "url" in repository ? repository.url : repository;
  const addresses = [
    ["repository", url, /^(?:git\+)?https:\/\/[^/]+\/./],
    ["homepage", homepage, /^https:\/\/./],
  ] as const;
  for (const [field, address, pattern] of addresses) {
    if (typeof address === "string" && pattern.test(address)) continue;
    throw new Error(`lib/package.json: ${field} must be an https address, not ${String(JSON.stringify(address))}`);
  }
  return `${String(url)}, ${String(homepage)}`;
}

/** The changes of a version in the changelog, for people. */
function changesOf(changelog: string, version: string): string {
  const count = (heading: string) => sectionOf(changelog, heading)?.match(/^- /gm)?.length ?? 0;
  const [named, unreleased] = [count(version), count("Unreleased")];
  if (named + unreleased === 0) throw new Error(`CHANGELOG.md lists no changes for ${version}`);
  if (named === 0) return `${unreleased} changes under "Unreleased": rename the heading in the commit of the release`;
  if (unreleased > 0) throw new Error(`CHANGELOG.md has ${unreleased} changes under "Unreleased" besides ${version}`);
  return `${named} changes`;
}

/** The section whose heading is the version, or the version and its date. */
function sectionOf(changelog: string, heading: string): string | undefined {
  return changelog.split(/^## /m).find((text) => /^\S*/.exec(text)?.[0].replaceAll(/[[\]]/g, "") === heading);
}

/**
 * Licences that may be combined with ours. The fonts of the studio have OFL-1.1, which allows to bundle them with
 * software.
 */
const allowedLicences = new Set(["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD", "OFL-1.1"]);

/** Checks the licences of the dependencies and of the code in the bundle. */
export function checkLicences(packages: readonly PackageFields[]): string {
  for (const { name, license } of packages) {
    if (typeof license !== "string" || !allowedLicences.has(license))
      throw new Error(
        `${String(name)} has the licence ${String(license)}, which is not among ${[...allowedLicences].join(", ")}`,
      );
  }
  return packages.map(({ name, license }) => `${String(name)} (${String(license)})`).join(", ");
}

/** The names of the packages whose code is in the bundle, from the file with their licences. */
export function bundledPackages(licences: string): readonly string[] {
  return [...licences.matchAll(/^(?<name>(?:@[\w.-]+\/)?[\w.-]+) \d+\.\d+\.\d+\S*$/gm)].map(
    (match) => match.groups?.["name"] ?? "",
  );
}

const publishedFile =
  /^(?:package\.json|README\.md|LICENSE|SKILL\.md|llms\.txt|react\.css|docs\/guide\/[\w-]+\.md|bin\/everturn\.js|templates\/.+|studio\/(?:index\.html|icon\.svg|THIRD-PARTY-LICENSES\.txt|assets\/[^/.][^/]*\.(?:js|js\.map|css|woff2|svg))|dist\/(?:types\/)?[^/]+\.(?:js|js\.map|d\.ts|txt))$/;

/** Checks that the tarball has the files that are meant to be published, and no others. */
export function checkContents(files: readonly string[]): string {
  const unexpected = files.filter((path) => !publishedFile.test(path));
  if (unexpected.length > 0) throw new Error(`unexpected files: ${unexpected.join(", ")}`);
  const missing = [
    "package.json",
    "README.md",
    "LICENSE",
    "SKILL.md",
    "llms.txt",
    "docs/guide/getting-started.md",
    "bin/everturn.js",
    "dist/index.js",
    "dist/licenses.txt",
    "studio/index.html",
    "studio/THIRD-PARTY-LICENSES.txt",
  ].filter((path) => !files.includes(path));
  if (missing.length > 0) throw new Error(`missing files: ${missing.join(", ")}`);
  return `${files.length} files`;
}

/**
 * The words of the npm command that publishes a tarball. `path` is relative to the repository: without `./` npm takes
 * `release/x.tgz` for a repository on GitHub. A prerelease gets the tag `next`, so that `npm install everturn` does not
 * choose it.
 */
export function publishCommand(path: string, version: string): readonly string[] {
  const tag = version.includes("-") ? ["--tag", "next"] : [];
  return ["publish", `./${path.replaceAll("\\", "/")}`, "--access", "public", ...tag];
}
