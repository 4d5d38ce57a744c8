-- PUT_SCHEDULE
INSERT INTO __alkstore_schedules (name, spec, queue, payload, priority, max_attempts, expires, headers, next_fire_at) VALUES (:name, :spec, :queue, :payload, :priority, :max_attempts, :expires, :headers, CASE WHEN (:every > 9223372036854775807 - :now) THEN 9223372036854775807 ELSE :now + :every END) ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, max_attempts = excluded.max_attempts, expires = excluded.expires, headers = excluded.headers, next_fire_at = CASE WHEN (__alkstore_schedules.spec = excluded.spec) THEN __alkstore_schedules.next_fire_at ELSE excluded.next_fire_at END RETURNING name, spec, queue, payload, priority, max_attempts, expires, headers, next_fire_at;

-- DELETE_SCHEDULE
DELETE FROM __alkstore_schedules WHERE __alkstore_schedules.name = :name;

-- LIST_SCHEDULES
SELECT __alkstore_schedules.name, __alkstore_schedules.spec, __alkstore_schedules.queue, __alkstore_schedules.payload, __alkstore_schedules.priority, __alkstore_schedules.max_attempts, __alkstore_schedules.expires, __alkstore_schedules.headers, __alkstore_schedules.next_fire_at
FROM __alkstore_schedules ORDER BY __alkstore_schedules.name;

-- ADVANCE
UPDATE __alkstore_schedules SET next_fire_at=:following WHERE __alkstore_schedules.name = :name AND __alkstore_schedules.next_fire_at = :expected;
