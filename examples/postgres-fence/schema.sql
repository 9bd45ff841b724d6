-- A ledger, and the fence of the last reconcile that has written to it.
CREATE TABLE ledgers (
    tenant     text   NOT NULL,
    ledger     text   NOT NULL,
    balance    bigint NOT NULL DEFAULT 0,
    last_fence bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, ledger)
);
