// Helpers shared by the validation rules in validate.ts and validate-image-request.ts.

import type { Issue, IssueCode, Path } from "../failure/issue.ts";

import { describe } from "./json.ts";

export function isPositiveInteger(value: unknown): boolean {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 1;
}

export function notAnObject(path: Path, input: unknown): Issue {
  return issue(path, "invalid_type", `must be an object, not ${describe(input)}`);
}

export function issue(path: Path, code: IssueCode, message: string): Issue {
  return { path, code, message };
}
