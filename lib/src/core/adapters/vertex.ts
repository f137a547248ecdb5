// Vertex AI: Gemini and Claude on Google Cloud, with OAuth tokens in place of API keys.

import type { Rule } from "../engine/internal.ts";

import { objectOf } from "../engine/internal.ts";

/** A project and a location of Google Cloud. */
export type VertexOptions = {
  /** The id of the project. */
  readonly project: string;
  /** The location, for example `europe-west1`, or `global`. It becomes part of the host name. */
  readonly location: string;
};

/** Names that fit into a URL. A location is a part of the host name, so it has no dots and colons. */
function nameMatching(pattern: RegExp): Rule {
  return {
    must: "a name of letters, digits and hyphens",
    fits: (value) => typeof value === "string" && pattern.test(value),
    show: JSON.stringify,
    required: true,
  };
}

export const vertexRule = objectOf<VertexOptions>({
  project: nameMatching(/^[a-z\d][a-z\d.:-]*$/i),
  location: nameMatching(/^[a-z\d][a-z\d-]*$/i),
});

/** The base URL of the models of a publisher. */
export function vertexBaseURL({ project, location }: VertexOptions, publisher: string): string {
  const host = location === "global" ? "aiplatform.googleapis.com" : `${location}-aiplatform.googleapis.com`;
  return `https://${host}/v1/projects/${project}/locations/${location}/publishers/${publisher}`;
}
