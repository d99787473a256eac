create table t(id integer primary key, name text, n real);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 5000)
  insert into t select x, printf('name-%d', x * 7919 % 997), x / 3.0 from c;
create index i on t(name);
select count(*), round(sum(n), 3) from t where name like 'name-1%';
select name, count(*) from t group by name order by 2 desc, 1 limit 5;
begin; update t set n = n + 1 where id % 3 = 0; delete from t where id % 7 = 0; rollback;
create trigger g after delete on t begin insert into t(name, n) values ('gone', old.id); end;
delete from t where id < 20;
select a.id, b.id from t a join t b on a.name = b.name and a.id < b.id where a.id < 50 order by 1, 2 limit 10;
select json_group_array(name) from (select distinct name from t where id < 30 order by name);
pragma integrity_check;
