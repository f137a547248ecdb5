// The entry points by `require()`, which Node 20.19 and later support for ES modules without top-level await.

for (const specifier of process.argv[2].split(",")) {
  if (Object.keys(require(specifier)).length === 0) throw new Error(`${specifier} exports nothing`);
}
console.log("ok");
