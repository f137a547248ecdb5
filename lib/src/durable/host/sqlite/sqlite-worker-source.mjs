// Starts the worker when the sources are run without a build. A worker thread does not inherit the TypeScript loader of
// its parent.
//
// With `EVERTURN_BUILT_WORKER=1` it starts the bundled worker, which takes 90 ms of CPU instead of 500. The tests set
// it: they build the package first.

if (process.env["EVERTURN_BUILT_WORKER"] === "1") {
  await import("../../../../dist/sqlite-worker.js");
} else {
  const { register } = await import("tsx/esm/api");
  register();
  await import("./sqlite-worker.ts");
}
