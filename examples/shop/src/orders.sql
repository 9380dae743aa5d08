BEGIN IMMEDIATE;

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer TEXT NOT NULL,
    item TEXT NOT NULL,
    cents INTEGER NOT NULL CHECK (cents > 0),
    status TEXT NOT NULL CHECK (status IN ('placed', 'shipped', 'refunded'))
) STRICT;

-- A refund's key is that of the call which asked for it: a call that runs again refunds once.
CREATE TABLE refunds (
    order_id INTEGER PRIMARY KEY REFERENCES orders (id),
    key TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO orders (id, customer, item, cents, status) VALUES
    (1, 'Ana Sousa', 'desk lamp', 3990, 'shipped'),
    (2, 'Rui Costa', 'bookshelf', 14900, 'placed'),
    (3, 'Ana Sousa', 'kettle', 2450, 'placed'),
    (4, 'Marta Lopes', 'garden chair', 5900, 'placed'),
    (5, 'Rui Costa', 'doormat', 1500, 'refunded');

COMMIT;
