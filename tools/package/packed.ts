// The package as users get it: packed by npm, and unpacked into an empty project.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { library, root } from "./entry-files.ts";

const run = promisify(execFile);

export type Tarball = {
  readonly path: string;
  readonly files: readonly string[];
  /** Bytes on the disk after the installation, by file. */
  readonly sizes: ReadonlyMap<string, number>;
  /** Bytes of the download. */
  readonly size: number;
};

/** Builds and packs the package, or another folder of the workspace. */
export async function pack(folder: string, source = library): Promise<Tarball> {
  mkdirSync(folder, { recursive: true });
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: source });
  type Packed = {
    readonly filename: string;
    readonly files: readonly { readonly path: string; readonly size: number }[];
    readonly size: number;
  };
  const [packed]: readonly Packed[] = JSON.parse(stdout);
  if (packed === undefined) throw new Error("npm pack wrote no tarball");
  const { filename, files, size } = packed;
  const sizes = new Map(files.map((file) => [file.path, file.size]));
  return { path: join(folder, filename), files: [...sizes.keys()], sizes, size };
}

/**
 * Unpacks the tarball into `node_modules/everturn` of a project, beside links to its dependencies in the workspace.
 * Returns the folder of the package.
 */
export async function unpack(tarball: Tarball, project: string): Promise<string> {
  const modules = join(project, "node_modules");
  const target = join(modules, "everturn");
  mkdirSync(target, { recursive: true });
  writeFileSync(join(project, "package.json"), `{ "private": true, "type": "module" }\n`);
  await run("tar", ["-xzf", tarball.path, "-C", target, "--strip-components=1"]);
  type Manifest = { readonly dependencies?: { readonly [name: string]: string } };
  const { dependencies = {} }: Manifest = JSON.parse(readFileSync(join(target, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(modules, name), "junction");
  }
  return target;
}

/** Copies a file of the repository into a project. */
export function addFile(project: string, path: string, name: string): void {
  cpSync(join(root, path), join(project, name));
}
