-- Machines that are slow for their model. Of each machine the worst case, and how many are slow.
WITH samples AS (
    SELECT parse_filename(filename, true) AS machine, "case", gib_per_s
    FROM read_csv('runs/node-*.csv', filename = true, union_by_name = true)
), machines AS (
    SELECT machine, model, "case", median(gib_per_s) AS rate
    FROM samples JOIN read_csv('runs/models.csv') USING (machine)
    GROUP BY ALL
), compared AS (
    SELECT *, rate / median(rate) OVER (PARTITION BY model, "case") AS ratio
    FROM machines
)
SELECT machine, model, count(*) AS slow_cases, arg_min("case", ratio) AS worst, round(min(ratio), 2) AS ratio
FROM compared
WHERE ratio < 0.8
GROUP BY ALL
ORDER BY ratio
