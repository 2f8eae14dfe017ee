-- What Lookalike's events say, in PostgreSQL. consumer.py creates it where it is missing, and keeps it up to date.
CREATE SCHEMA IF NOT EXISTS lookalike;

-- Where to go on in each partition of the events topic; written in one transaction with what was made of the events.
CREATE TABLE IF NOT EXISTS lookalike.progress (
    partition integer PRIMARY KEY,
    next_offset bigint,                     -- null: from the beginning
    seq bigint NOT NULL DEFAULT -1,         -- the highest number of an event taken in
    n_events bigint NOT NULL DEFAULT 0,     -- how many were taken in
    store text                              -- the store that they are of
);

-- The newest sighting of each URL. A URL may be longer than a row of an index, so its digest is the key.
CREATE TABLE IF NOT EXISTS lookalike.sightings (
    url_sha256 bytea PRIMARY KEY,
    url text NOT NULL,
    fetched_at timestamptz NOT NULL,
    seen smallint NOT NULL,                 -- 1 gone, 2 redirect, 3 page
    redirect_to text COLLATE "C" NOT NULL,
    document bigint NOT NULL,               -- 0: none
    sweep text COLLATE "C" NOT NULL         -- empty: none
);
CREATE INDEX IF NOT EXISTS sightings_document ON lookalike.sightings (document);

-- Closed sweeps that should have seen a URL and did not.
CREATE TABLE IF NOT EXISTS lookalike.losses (
    url_sha256 bytea,
    sweep text COLLATE "C",
    fetched_at timestamptz NOT NULL,
    PRIMARY KEY (url_sha256, sweep)
);

-- The cluster that the last event about a document named.
CREATE TABLE IF NOT EXISTS lookalike.documents (
    document bigint PRIMARY KEY,
    cluster bigint NOT NULL,
    seq bigint NOT NULL
);

-- Clusters that became part of another one; no winner: the cluster has its own name again.
CREATE TABLE IF NOT EXISTS lookalike.merges (
    loser bigint PRIMARY KEY,
    winner bigint CHECK (winner < loser),
    seq bigint NOT NULL
);

-- The present name of a cluster.
CREATE OR REPLACE FUNCTION lookalike.present_name(cluster bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    name bigint := cluster;
    next_name bigint;
BEGIN
    LOOP
        SELECT winner INTO next_name FROM lookalike.merges WHERE loser = name;
        EXIT WHEN next_name IS NULL;
        name := next_name;
    END LOOP;
    RETURN name;
END
$$;

-- What stands at each URL now, as `lookalike export present` says it. A cluster has its name from one of its documents,
-- its representative.
CREATE OR REPLACE VIEW lookalike.present AS
WITH newest AS (
    SELECT s.url, s.url_sha256, s.document, s.redirect_to, s.seen, s.fetched_at, s.sweep, l.fetched_at AS lost_at, l.sweep AS lost_in
    FROM lookalike.sightings s
    LEFT JOIN LATERAL (
        SELECT fetched_at, sweep FROM lookalike.losses
        WHERE losses.url_sha256 = s.url_sha256 AND losses.fetched_at > s.fetched_at
        ORDER BY fetched_at DESC, sweep DESC LIMIT 1
    ) l ON true
), named AS (
    SELECT newest.*, lookalike.present_name(d.cluster) AS cluster
    FROM newest LEFT JOIN lookalike.documents d ON newest.lost_at IS NULL AND newest.seen = 3 AND d.document = newest.document
)
SELECT
    url,
    coalesce(lost_at, fetched_at) AS fetched_at,
    coalesce(lost_in, sweep) AS sweep,
    CASE WHEN cluster IS NOT NULL THEN document END AS document,
    cluster,
    document = cluster AS representative,
    CASE WHEN lost_at IS NOT NULL THEN 'lost' ELSE (ARRAY['gone', 'redirect', 'page'])[seen] END AS state,
    CASE WHEN lost_at IS NULL AND seen = 2 THEN redirect_to END AS redirect_to,
    url_sha256
FROM named;
