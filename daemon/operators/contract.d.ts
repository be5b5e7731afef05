// The answers of the control socket: GET /v1/watch sends events. Write it anew: go test ./daemon/operators -run TestContract -update

export interface Event {
  whole?: boolean;
  status?: Report;
  accounts?: Accounts;
  keys?: Keys;
  remotes?: Remote[];
  dependencies?: Dependency[];
  history?: History;
  requests?: Request[];
}

export interface Requests {
  requests: Request[];
}

export interface Table {
  since: string;
  by: string[];
  usage: Sum[];
}

export interface AccountOrder {
  account: string;
  do: string;
}

export interface DrainOrder {
  worker?: string;
  invocation?: string;
  wait_ms?: number;
}

export interface Report {
  ok: boolean;
  health: Health;
  workers: Worker[];
  queue: Queue;
  dependencies?: Dependency[];
  remotes?: Remote[];
  brokers?: Broker[];
  database?: Database;
}

export interface Accounts {
  rotation: string;
  accounts: Account[];
}

export interface Keys {
  count: number;
  file?: string;
  digest?: string;
  closed?: boolean;
  required?: boolean;
  keys: Key[];
}

export interface Remote {
  name: string;
  unit: string;
  active_state: string;
  sub_state: string;
  status_text?: string;
  ready: boolean;
  reason: string;
  since: string;
  restarts_total: number;
  next_restart_at: string | null;
  last_exit: Exit | null;
  use?: RemoteUse;
}

export interface Dependency {
  name: string;
  unit: string;
  active_state: string;
  sub_state: string;
  main_pid: number;
  status_text?: string;
  ready: boolean;
  reason: string;
  since: string;
  restarts_total: number;
  next_restart_at: string | null;
  last_exit: Exit | null;
  required_by: string[];
}

export interface History {
  period_s: number;
  points: Point[];
}

export interface Request {
  number: number;
  at: string;
  request_id: string;
  response_id?: string;
  method: string;
  route: string;
  status: number;
  outcome: string;
  key?: string;
  model?: string;
  worker?: string;
  thread_id?: string;
  trace_id?: string;
  stream?: boolean;
  outside?: boolean;
  attempts?: number;
  duration_ms: number;
  queued_ms?: number;
  ttfb_ms?: number;
  first_text_ms?: number;
  input_tokens?: number;
  output_tokens?: number;
}

export interface Sum {
  hour?: string;
  day?: string;
  key?: string;
  model?: string;
  account?: string;
  requests: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
}

export interface Health {
  readiness: Readiness;
  liveness: Liveness;
}

export interface Worker {
  name: string;
  unit: string;
  active_state: string;
  sub_state: string;
  main_pid: number;
  invocation_id?: string;
  status_text?: string;
  ready: boolean;
  reason: string;
  handshake: Handshake | null;
  restarts_total: number;
  oom_kills_total: number;
  consecutive_failures: number;
  next_restart_at: string | null;
  last_exit: Exit | null;
  last_ready_at: string | null;
  startup_latency_ms: number;
  inflight: number;
  drained: boolean;
  unmet?: string[];
  fault?: string;
  transitions: Transition[];
}

export interface Queue {
  depth: number;
  limit: number;
  oldest_wait_ms: number;
}

export interface Broker {
  name: string;
  unit: string;
  active_state: string;
  sub_state: string;
  status_text?: string;
  endpoint?: string;
  connections: number;
  streams: number;
  requests: number;
  last_failure: BrokerFailure | null;
}

export interface Database {
  server?: string;
  away: boolean;
  since: string;
  reason?: string;
}

export interface Account {
  name: string;
  login: string;
  required: boolean;
  plan?: string;
  email?: string;
  login_at?: string;
  limits: Limit[];
  state: string;
  until?: string;
  left: number;
  known_from?: string;
  known_at?: string;
  refused_at?: string;
  invalid_at?: string;
  credits?: Credits;
  shared_with?: string[];
  paused?: boolean;
  in_use?: boolean;
  next?: boolean;
  why?: string;
}

export interface Key {
  name: string;
  limits: KeyLimits;
  used?: KeyUse;
}

export interface Exit {
  result: string;
  code: string;
  status: string;
  at: string;
}

export interface RemoteUse {
  at: string;
  owners: number;
  viewers: number;
  turns: number;
  turn_since?: string;
  alone_since?: string;
  account?: string;
  continued: number;
  given_up: number;
  switches: number;
  commands?: number;
  unknown_requests?: string[];
}

export interface Point {
  at: string;
  turns: number;
  errors?: Record<string, number>;
  first_text_p50_ms?: number;
  first_text_p95_ms?: number;
  queue: number;
  in_flight: number;
  input_tokens: number;
  output_tokens: number;
  restarts: number;
}

export interface Readiness {
  ready: boolean;
  reason: string;
  since: string;
  last_change_at: string;
  details: string;
}

export interface Liveness {
  live: boolean;
  reason: string;
  since: string;
}

export interface Handshake {
  at: string;
  user_agent: string;
  models: string[];
}

export interface Transition {
  reason: string;
  at: string;
}

export interface BrokerFailure {
  reason: string;
  at: string;
  over: boolean;
}

export interface Limit {
  window: string;
  used_ratio: number;
  resets_at?: string;
}

export interface Credits {
  has_credits: boolean;
  unlimited: boolean;
  balance?: string;
}

export interface KeyLimits {
  requests_per_minute?: number;
  tokens_per_minute?: number;
  tokens_per_day?: number;
  concurrent?: number;
  models?: string[];
  accounts?: string[];
  choose_account?: boolean;
  remotes?: string[];
  unknown_parameters?: string;
  console?: string;
}

export interface KeyUse {
  requests_per_minute?: number;
  tokens_per_minute?: number;
  tokens_per_day: number;
  concurrent: number;
  refused?: Record<string, number>;
}
