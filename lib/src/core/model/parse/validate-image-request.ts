// The validation rules of image requests.

import type { ImageRequest } from "../call/image-request.ts";
import type { ValidationFailure } from "../failure/failure.ts";
import type { Issue } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";

import { imageOperations } from "../call/image-operation.ts";
import { imageFormats } from "../call/image-request.ts";
import { imageShape } from "../message/image-content.ts";
import { describe, isPlainObject, ownValue } from "./json.ts";
import { isPositiveInteger, issue, notAnObject } from "./rule.ts";
import { read } from "./shape.ts";
import { toResult } from "./validate.ts";

/**
 * Checks an image request: prompt and input images fit the operation, count and size are positive. A violation is a
 * failure (`invalid_image_request`).
 */
export function validateImageRequest(request: ImageRequest): Result<ImageRequest, ValidationFailure> {
  return toResult("invalid_image_request", request, imageRequestIssues(request));
}

function imageRequestIssues(input: unknown): readonly Issue[] {
  if (!isPlainObject(input)) return [notAnObject([], input)];
  const operation = ownValue(input, "operation");
  const mask = ownValue(input, "mask") ?? null;
  const issues: Issue[] = [];
  if (!imageOperations.some((word) => word === operation)) {
    issues.push(issue(["operation"], "unknown", `must be one of ${imageOperations.join(", ")}`));
  }
  if (!isPositiveInteger(ownValue(input, "n"))) {
    issues.push(issue(["n"], "must_be_positive", "must be a whole number of 1 or more"));
  }
  if (!imageFormats.some((word) => word === ownValue(input, "responseFormat"))) {
    issues.push(issue(["responseFormat"], "unknown", `must be one of ${imageFormats.join(", ")}`));
  }
  if (!isImageSize(ownValue(input, "size") ?? null)) {
    issues.push(issue(["size"], "invalid_shape", "must be { width, height } of 1 or more, or a provider's own value"));
  }
  const maskIssues = mask === null || isImage(mask) ? [] : [issue(["mask"], "invalid_image", "must be an image")];
  return [
    ...issues,
    ...inputImageIssues(ownValue(input, "inputImages")),
    ...maskIssues,
    ...operationIssues(operation, ownValue(input, "prompt"), ownValue(input, "inputImages")),
  ];
}

function inputImageIssues(images: unknown): readonly Issue[] {
  if (!Array.isArray(images)) {
    return [issue(["inputImages"], "not_a_list", `must be a list of images, not ${describe(images)}`)];
  }
  return images.flatMap((item: unknown, index) =>
    isImage(item) ? [] : [issue(["inputImages", index], "invalid_image", "must be an image")],
  );
}

function operationIssues(operation: unknown, prompt: unknown, images: unknown): readonly Issue[] {
  const inputs = Array.isArray(images) ? images.length : 0;
  const hasPrompt = typeof prompt === "string" && prompt !== "";
  const issues: Issue[] = [];
  if ((operation === "generate" || operation === "edit") && !hasPrompt) {
    issues.push(issue(["prompt"], "required_for_operation", `${operation} needs a prompt`));
  }
  if (operation === "generate" && inputs > 0) {
    issues.push(issue(["inputImages"], "must_be_empty", "generate takes no input images; use edit or variation"));
  }
  if (operation === "edit" && (inputs < 1 || inputs > 2)) {
    issues.push(issue(["inputImages"], "invalid_count", `edit takes 1 or 2 images, not ${inputs}`));
  }
  if (operation === "variation" && inputs !== 1) {
    issues.push(issue(["inputImages"], "invalid_count", `variation takes 1 image, not ${inputs}`));
  }
  if (operation === "variation" && prompt !== null && prompt !== undefined) {
    issues.push(issue(["prompt"], "not_allowed_for_operation", "variation takes no prompt"));
  }
  return issues;
}

function isImage(value: unknown): boolean {
  return "value" in read(imageShape, value);
}

function isImageSize(size: unknown): boolean {
  if (size === null || typeof size === "string") return true;
  return (
    isPlainObject(size) && isPositiveInteger(ownValue(size, "width")) && isPositiveInteger(ownValue(size, "height"))
  );
}
