// Makes the fixture datasets with the official LanceDB client. Usage: node make-fixtures.js NODE_ROOT OUT_DIR
const {createRequire}=require('module');const fs=require('fs');const [,,root,dir]=process.argv;const req=createRequire(root+'/package.json');
const lancedb=req('@lancedb/lancedb');const a=req('apache-arrow');const {Index}=lancedb;
const F=(n,t,nul=false)=>new a.Field(n,t,nul);
const fsl=(d,t,inul)=>new a.FixedSizeList(d,new a.Field('item',t,inul));
const J=x=>JSON.stringify(x,(k,v)=>typeof v==='bigint'?v.toString():v);
const log=async(n,t)=>console.log(n,'version',await t.version(),J(await t.listIndices()));
const typed=[F('id',new a.Int64()),F('entityId',new a.Int64()),F('title',new a.Utf8()),F('flag',new a.Bool()),F('day',new a.DateDay()),
 F('ts',new a.TimestampMicrosecond('UTC')),F('ts_naive',new a.TimestampMillisecond()),F('score',new a.Float64()),F('price',new a.Decimal(2,10,128)),
 F('vec',fsl(8,new a.Float32(),true)),F('vec16',fsl(8,new a.Float16(),false)),
 F('note',new a.Utf8(),true),F('meta',new a.Struct([F('userId',new a.Int32()),F('tag',new a.Utf8(),true)]))];
const vec=k=>Array.from({length:8},(_,j)=>((k>>j)&1));
const row=k=>({id:BigInt(k),entityId:BigInt(1000+k),title:'t'+(k%2),flag:k%2==0,day:new Date(Date.UTC(2026,0,1)),ts:new Date(Date.UTC(2026,0,1)),ts_naive:new Date(Date.UTC(2026,0,1)),
 score:0.5,price:new Uint32Array([100,0,0,0]),vec:vec(k),vec16:vec(k),note:null,meta:{userId:k,tag:'x'}});
const pick=(names,n)=>{const fs_=typed.filter(f=>names.includes(f.name));return lancedb.makeArrowTable(Array.from({length:n},(_,k)=>{const r=row(k),o={};for(const f of fs_)o[f.name]=r[f.name];return o}),{schema:new a.Schema(fs_)})};
(async()=>{
 fs.rmSync(dir,{recursive:true,force:true});const db=await lancedb.connect(dir);
 let t;
 // every type, one nullable column, a nested struct, no index; one version
 t=await db.createTable('typed',pick(typed.map(f=>f.name),256)); await log('typed',t);
 // three indexes, 8-bit PQ, then an append so that the newest manifest still carries them
 t=await db.createTable('indexed',pick(['id','flag','vec'],256));
 await t.createIndex('id',{config:Index.btree(),name:'id_btree',replace:false});
 await t.createIndex('flag',{config:Index.bitmap(),name:'flag_bitmap',replace:false});
 await t.createIndex('vec',{config:Index.ivfPq({numPartitions:1,numSubVectors:2,numBits:8,distanceType:'l2'}),name:'Vec_IvfPq',replace:false});
 await log('indexed',t);
 // two index names that differ only in case
 t=await db.createTable('casetwins',pick(['id','entityId'],2));
 await t.createIndex('id',{config:Index.btree(),name:'Twin_Idx',replace:false});
 await t.createIndex('entityId',{config:Index.btree(),name:'twin_idx',replace:false});
 await log('casetwins',t);
 // V1 manifest names and a deletion (reader flag 1)
 t=await db.createTable('v1names',pick(['id','vec'],4),{storageOptions:{new_table_enable_v2_manifest_paths:'false'}});
 await t.createIndex('id',{config:Index.btree(),name:'id_btree',replace:false});
 await t.delete('id=3'); await log('v1names',t);
 fs.rmSync(dir+'/__manifest',{recursive:true,force:true});
})().catch(e=>{console.error('ERR',e.message);process.exit(1)});
