package fleet

// sharesStep has all hosts share the limits of keys, and makes the usage one table.
//
// codex.share answers asks as share.Pool does, with the pool of each limit locked until the end of the transaction:
// asks come in the order of the bytes of keys and kinds, so that transactions wait for each other in one direction. The
// pool of a limit is locked before the share of a host there, also by codex.take_back, which takes the shares of a host
// back, unless the named process has them. They are functions, as their plans stay in a connection.
const sharesStep = `
CREATE TABLE codex.limits (
	key text NOT NULL,
	kind text NOT NULL,
	used float8 NOT NULL DEFAULT 0,
	held float8 NOT NULL DEFAULT 0,
	demand float8 NOT NULL DEFAULT 0,
	at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (key, kind)
) WITH (fillfactor = 20);
CREATE TABLE codex.shares (
	host text NOT NULL,
	key text NOT NULL,
	kind text NOT NULL,
	process text NOT NULL,
	used float8 NOT NULL,
	held float8 NOT NULL,
	demand float8 NOT NULL,
	at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (host, key, kind)
) WITH (fillfactor = 50);
CREATE TABLE codex.usage (
	period text NOT NULL,
	key text NOT NULL,
	model text NOT NULL,
	account text NOT NULL,
	machine text NOT NULL,
	source text NOT NULL,
	requests bigint NOT NULL,
	input_tokens bigint NOT NULL,
	cached_tokens bigint NOT NULL,
	output_tokens bigint NOT NULL,
	reasoning_tokens bigint NOT NULL,
	PRIMARY KEY (period, key, model, account, machine, source)
) WITH (fillfactor = 70);

CREATE FUNCTION codex.share(
	host_ text, process_ text, keys_ text[], kinds_ text[], most_ float8[], refill_ float8[], daily_ boolean[],
	held_ float8[], used_ float8[], demand_ float8[], need_ float8[], want_ float8[])
RETURNS TABLE (granted float8, free float8, total float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	pool codex.limits;
	mine codex.shares;
	moment timestamptz;
	part float8;
BEGIN
	FOR i IN 1 .. coalesce(array_length(keys_, 1), 0) LOOP
		SELECT * INTO pool FROM codex.limits WHERE key = keys_[i] AND kind = kinds_[i] FOR UPDATE;
		IF NOT FOUND THEN
			INSERT INTO codex.limits (key, kind) VALUES (keys_[i], kinds_[i]) ON CONFLICT DO NOTHING;
			SELECT * INTO pool FROM codex.limits WHERE key = keys_[i] AND kind = kinds_[i] FOR UPDATE;
		END IF;
		SELECT * INTO mine FROM codex.shares WHERE host = host_ AND key = keys_[i] AND kind = kinds_[i];
		IF NOT FOUND THEN
			mine.process := ''; mine.used := 0; mine.held := 0; mine.demand := 0;
		END IF;
		moment := clock_timestamp();
		pool.used := greatest(0, pool.used - refill_[i] * greatest(0, extract(epoch FROM moment - pool.at)));
		IF daily_[i] AND (moment AT TIME ZONE 'UTC')::date <> (pool.at AT TIME ZONE 'UTC')::date THEN
			pool.used := 0;
		END IF;
		IF mine.process = process_ AND used_[i] >= mine.used THEN
			pool.used := pool.used + used_[i] - mine.used;
		ELSE
			pool.used := pool.used + used_[i];
		END IF;
		pool.held := greatest(0, pool.held + held_[i] - mine.held);
		pool.demand := greatest(0, pool.demand + demand_[i] - mine.demand);
		part := 1;
		IF pool.demand > demand_[i] THEN
			part := demand_[i] / pool.demand;
		END IF;
		free := most_[i] - pool.used - pool.held;
		granted := greatest(0, floor(least(want_[i], free, need_[i] + greatest(0, free - need_[i]) * part / 2)));
		UPDATE codex.limits SET used = pool.used, held = pool.held + granted, demand = pool.demand,
			at = greatest(pool.at, moment) WHERE key = keys_[i] AND kind = kinds_[i];
		UPDATE codex.shares SET process = process_, used = used_[i], held = held_[i] + granted, demand = demand_[i],
			at = moment WHERE host = host_ AND key = keys_[i] AND kind = kinds_[i];
		IF NOT FOUND THEN
			INSERT INTO codex.shares (host, key, kind, process, used, held, demand)
				VALUES (host_, keys_[i], kinds_[i], process_, used_[i], held_[i] + granted, demand_[i]);
		END IF;
		free := free - granted;
		total := pool.demand;
		RETURN NEXT;
	END LOOP;
END $$;

CREATE FUNCTION codex.bring_usage(
	machine_ text, periods_ text[], keys_ text[], models_ text[], accounts_ text[], sources_ text[], requests_ bigint[],
	input_ bigint[], cached_ bigint[], output_ bigint[], reasoning_ bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO codex.usage (period, key, model, account, source, requests, input_tokens, cached_tokens, output_tokens,
		reasoning_tokens, machine)
	SELECT *, machine_ FROM unnest(periods_, keys_, models_, accounts_, sources_, requests_, input_, cached_, output_,
		reasoning_)
	ON CONFLICT (period, key, model, account, machine, source) DO UPDATE SET requests = excluded.requests,
		input_tokens = excluded.input_tokens, cached_tokens = excluded.cached_tokens,
		output_tokens = excluded.output_tokens, reasoning_tokens = excluded.reasoning_tokens;
END $$;

CREATE FUNCTION codex.take_back(host_ text, process_ text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	found_ record;
	mine codex.shares;
BEGIN
	FOR found_ IN SELECT s.key, s.kind FROM codex.shares s
		WHERE s.host = host_ AND s.process <> process_ AND (s.held <> 0 OR s.demand <> 0)
		ORDER BY s.key COLLATE "C", s.kind COLLATE "C"
	LOOP
		PERFORM 1 FROM codex.limits l WHERE l.key = found_.key AND l.kind = found_.kind FOR UPDATE;
		SELECT * INTO mine FROM codex.shares s
			WHERE s.host = host_ AND s.key = found_.key AND s.kind = found_.kind AND s.process <> process_;
		CONTINUE WHEN NOT FOUND;
		UPDATE codex.limits l SET held = greatest(0, l.held - mine.held), demand = greatest(0, l.demand - mine.demand)
			WHERE l.key = found_.key AND l.kind = found_.kind;
		UPDATE codex.shares s SET held = 0, demand = 0
			WHERE s.host = host_ AND s.key = found_.key AND s.kind = found_.kind;
	END LOOP;
END $$;
`
