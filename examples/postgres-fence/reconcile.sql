-- One reconcile. tenant and ledger name what the gateway locked, fence is its x-tollgate-fence, amount stands for
-- what was worked out. (:'tenant' and the lines that start with \ are psql's; with a driver they are parameters and
-- a look at the result.)
--   psql -v ON_ERROR_STOP=1 -v tenant=acme -v ledger=ledger-7 -v fence=1764547200000000 -v amount=5 -f reconcile.sql
BEGIN;
SET LOCAL lock_timeout = '2s';         -- no longer wait for a row or a table that another transaction holds
SET LOCAL statement_timeout = '30s';   -- and no statement runs on and on
SET LOCAL idle_in_transaction_session_timeout = '60s';   -- a service that hangs in here loses its transaction

-- Alone with this ledger, or not at all: the answer comes at once, and the lock ends with the transaction.
SELECT pg_try_advisory_xact_lock(hashtext(:'tenant'), hashtext(:'ledger')) AS alone \gset
\if :alone
\else
    DO $$ BEGIN RAISE 'this ledger is being reconciled' USING ERRCODE = 'lock_not_available'; END $$;
\endif

-- The work goes here.

-- Only the newest holder writes, and each only once: who was paused, and has been followed by another, finds no row.
WITH written AS (
    UPDATE ledgers SET balance = balance + :amount, last_fence = :fence
    WHERE tenant = :'tenant' AND ledger = :'ledger' AND last_fence < :fence
    RETURNING 1
)
SELECT count(*) = 1 AS mine FROM written \gset
\if :mine
\else
    DO $$ BEGIN RAISE 'this fence is stale' USING ERRCODE = 'object_not_in_prerequisite_state'; END $$;
\endif
COMMIT;
