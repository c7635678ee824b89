// Calls the API by the types that are generated from its description, as a client
// of it would. make contract compiles it: a line that expects an error fails if the
// types let it through.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Run = components["schemas"]["RunResponse"];

export async function startAndRead(baseUrl: string, key: string): Promise<string> {
  const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

  const started = await api.POST("/runs", {
    body: { deployment: "daily-sales", parameters: { day: "2026-03-04" } },
    params: { header: { "Idempotency-Key": "2026-03-04" } },
  });
  if (started.error) {
    const detail: string | components["schemas"]["ValidationError"][] = started.error.detail;
    throw new Error(typeof detail === "string" ? detail : detail.map((d) => d.msg).join("; "));
  }
  const run = await api.GET("/runs/{run_id}", { params: { path: { run_id: started.data.run_id } } });
  const flows = await api.GET("/flows", { params: { query: { limit: 10 } } });
  const names: string[] = flows.data?.items.map((flow) => flow.flow_name) ?? [];
  await api.DELETE("/deployments/{deployment_name}", { params: { path: { deployment_name: "old" } } });

  // @ts-expect-error: there is no such path
  await api.GET("/run");
  // @ts-expect-error: run_id is missing
  await api.GET("/runs/{run_id}", {});
  // @ts-expect-error: a workspace has a name, and it is text
  await api.POST("/orgs", { body: { name: 1 } });

  return `${run.data?.status}: ${names.join()}`;
}
