// `npm run bench`: runs every benchmark in one process, one after the other, on the built package and not on its
// sources, and prints the ratios that are worse than the recorded ones. `-- --record` records those of this run.

import { benchDurable } from "./durable.ts";
import { benchKernel } from "./kernel.ts";
import { printedRatios } from "./measure.ts";
import { benchMiddleware } from "./middleware.ts";
import { benchModel } from "./model.ts";
import { compareWithRecorded, record } from "./recorded.ts";
import { benchSqlite } from "./sqlite.ts";
import { benchTypes } from "./types.ts";
import { benchWire } from "./wire.ts";

console.log(`Node ${process.version}, ${process.arch}`);
benchModel();
benchKernel();
benchWire();
benchTypes();
await benchMiddleware();
await benchDurable();
await benchSqlite();
const ratios = Object.fromEntries(printedRatios);
if (process.argv.includes("--record")) record(ratios);
else compareWithRecorded(ratios);
