// `npm run test:recorded -- DIR`: compares what the codecs decode with recorded replies of the providers below DIR,
// field by field. See replies/check.ts.

import { existsSync } from "node:fs";

import { checkRecordings } from "./replies/check.ts";

const folder = process.argv[2] ?? process.env["EVERTURN_RECORDED"];
if (folder === undefined || !existsSync(folder)) {
  const reason = folder === undefined ? "no folder of recordings was given" : `there is no folder ${folder}`;
  console.log(`skipped: ${reason}`);
  process.exit(0);
}
process.exit(checkRecordings(folder) ? 0 : 1);
