// Entry point `everturn/studio`: the studio in a server of your own, for Node.

export { serveStudio } from "./serve-studio.ts";
