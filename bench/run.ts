// `npm run bench`: every benchmark, one after the other, in one process.

import { benchModel } from "./model.ts";

console.log(`Node ${process.version}, ${process.arch}`);
benchModel();
