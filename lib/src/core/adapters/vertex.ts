// Vertex AI: Gemini and Claude on Google Cloud, with OAuth tokens in place of API keys.

import { MisuseError } from "../model/internal.ts";

/** A project and a location of Google Cloud. */
export type VertexOptions = {
  /** The id of the project. */
  readonly project: string;
  /** The location, for example `europe-west1`, or `global`. It becomes part of the host name. */
  readonly location: string;
};

/** The base URL of the models of a publisher. Throws `MisuseError` for names that do not fit into a URL. */
export function vertexBaseURL(adapter: string, { project, location }: VertexOptions, publisher: string): string {
  for (const [name, value] of Object.entries({ project, location })) {
    if (typeof value === "string" && /^[a-z\d][a-z\d.:-]*$/i.test(value) && (name === "project" || !/[.:]/.test(value)))
      continue;
    const message = `${adapter}: vertex.${name} must be a name of letters, digits and hyphens; it is ${JSON.stringify(value)}`;
    throw new MisuseError("invalid_argument", message, { path: ["vertex", name] });
  }
  const host = location === "global" ? "aiplatform.googleapis.com" : `${location}-aiplatform.googleapis.com`;
  return `https://${host}/v1/projects/${project}/locations/${location}/publishers/${publisher}`;
}
